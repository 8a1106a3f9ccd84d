-- Values kept under a key in a namespace; path is the namespace as jiyi/records/item.py writes it.

-- The list of kinds in the CHECK of documents grows; see 0003_life.sql for the way.
PRAGMA writable_schema = ON;
UPDATE sqlite_schema
SET sql = replace(sql, '''knowledge'', ''fact''', '''knowledge'', ''fact'', ''item''')
WHERE type = 'table' AND name = 'documents';
PRAGMA writable_schema = RESET;

CREATE TABLE items (
  doc        INTEGER PRIMARY KEY REFERENCES documents (doc) ON DELETE CASCADE,
  owner      INTEGER NOT NULL,
  path       TEXT NOT NULL,
  updated_at INTEGER NOT NULL,
  expires_at INTEGER,
  body       TEXT NOT NULL,
  crc        INTEGER NOT NULL
);
CREATE INDEX items_by_path ON items (owner, path);
CREATE INDEX items_by_end ON items (owner, expires_at) WHERE expires_at IS NOT NULL;
