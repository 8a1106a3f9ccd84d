-- The number of the set that a vector is of: another set can be made beside the one that is searched.

ALTER TABLE vectors ADD COLUMN space INTEGER NOT NULL DEFAULT 0;
DROP INDEX vectors_by_owner;
CREATE INDEX vectors_by_owner ON vectors (owner, space, part);
DROP INDEX vectors_by_doc;
CREATE INDEX vectors_by_doc ON vectors (doc, space);

-- What another index than the table above holds (jiyi/storage/chroma). A record with vectors there has
-- one row in vectors all the same, without numbers. A token names a record's vectors and is never used
-- twice; what is 'going' is still to be taken out there.
CREATE TABLE chroma_items (
  user_id     TEXT NOT NULL,
  token       TEXT NOT NULL,
  doc         INTEGER NOT NULL,
  space       INTEGER NOT NULL,
  parts       INTEGER NOT NULL,
  state       TEXT NOT NULL CHECK (state IN ('adding', 'held', 'going')),
  lease_until INTEGER NOT NULL,
  PRIMARY KEY (user_id, token)
) WITHOUT ROWID;
CREATE INDEX chroma_items_by_doc ON chroma_items (doc, space);
CREATE INDEX chroma_items_unsettled ON chroma_items (state, lease_until) WHERE state != 'held';
