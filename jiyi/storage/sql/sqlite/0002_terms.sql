-- The words of each record in a row of its own, from which search builds one user's index in
-- memory; the bytes of an entry are described in jiyi/storage/postings.py. A step in Python
-- (jiyi/storage/sqlite/migrate.py) fills the table from the stored texts.

DROP TABLE search;

CREATE TABLE terms (
  doc     INTEGER PRIMARY KEY REFERENCES documents (doc) ON DELETE CASCADE,
  owner   INTEGER NOT NULL,
  length  INTEGER NOT NULL,
  traits  INTEGER NOT NULL,
  speaker TEXT,
  entry   BLOB NOT NULL
);
CREATE INDEX terms_by_owner ON terms (owner, doc);

-- Counts every removal, and every change of what is held in memory: of vectors, and of terms.
ALTER TABLE owners RENAME COLUMN vectors_generation TO generation;
