"""The store's logic on tables, the same for every database; see `jiyi.storage.database`."""
