"""A way in from other programs: their exports and databases, recognised by what they hold, as records."""
