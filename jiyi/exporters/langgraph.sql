-- LangGraph's store in a file, as after its first five migrations, so that it has none of them to run.

-- name: schema
CREATE TABLE store (
  prefix text NOT NULL, key text NOT NULL, value text NOT NULL,
  created_at TIMESTAMP DEFAULT CURRENT_TIMESTAMP, updated_at TIMESTAMP DEFAULT CURRENT_TIMESTAMP,
  expires_at TIMESTAMP, ttl_minutes REAL, PRIMARY KEY (prefix, key));
CREATE INDEX store_prefix_idx ON store (prefix);
CREATE INDEX idx_store_expires_at ON store (expires_at) WHERE expires_at IS NOT NULL;
CREATE TABLE store_migrations (v INTEGER PRIMARY KEY);
INSERT INTO store_migrations VALUES (0), (1), (2), (3), (4);

-- name: put
INSERT INTO store VALUES (?, ?, ?, ?, ?, ?, ?);
