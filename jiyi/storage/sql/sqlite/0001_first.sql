-- The first schema. Times are whole microseconds since 1970 UTC; user_id leads every key.

CREATE TABLE meta (
  name  TEXT NOT NULL PRIMARY KEY,
  value TEXT NOT NULL
) WITHOUT ROWID;

-- One row for each user: a short number for the text index, and a count of vector
-- removals by which cached matrices notice that they are out of date.
CREATE TABLE owners (
  owner              INTEGER PRIMARY KEY,
  user_id            TEXT NOT NULL UNIQUE,
  vectors_generation INTEGER NOT NULL DEFAULT 0
);

CREATE TABLE sessions (
  user_id        TEXT NOT NULL,
  session_id     TEXT NOT NULL,
  started_at     INTEGER NOT NULL,
  last_active_at INTEGER NOT NULL,
  next_seq       INTEGER NOT NULL,
  messages       INTEGER NOT NULL,
  PRIMARY KEY (user_id, session_id)
) WITHOUT ROWID;

-- Everything that search can find, whatever its kind. AUTOINCREMENT: a number is never
-- given twice, so a late vector cannot land on another record.
CREATE TABLE documents (
  doc          INTEGER PRIMARY KEY AUTOINCREMENT,
  user_id      TEXT NOT NULL,
  agent_id     TEXT,
  session_id   TEXT,
  kind         TEXT NOT NULL CHECK (kind IN ('message', 'episode', 'knowledge')),
  id           TEXT NOT NULL,
  role         TEXT,
  seq          INTEGER,
  created_at   INTEGER NOT NULL,
  pinned       INTEGER NOT NULL DEFAULT 0,
  vector_state TEXT NOT NULL CHECK (vector_state IN ('pending', 'ready', 'none')),
  lease_until  INTEGER NOT NULL DEFAULT 0,
  UNIQUE (user_id, kind, id)
);
CREATE UNIQUE INDEX documents_by_session ON documents (user_id, session_id, seq) WHERE kind = 'message';
CREATE INDEX documents_by_time ON documents (user_id, kind, created_at);
CREATE INDEX documents_pinned ON documents (user_id, session_id, seq) WHERE pinned = 1;
CREATE INDEX documents_system ON documents (user_id, session_id, seq) WHERE role = 'system';
CREATE INDEX documents_pending ON documents (doc) WHERE vector_state = 'pending';

CREATE TABLE messages (
  doc        INTEGER PRIMARY KEY REFERENCES documents (doc) ON DELETE CASCADE,
  body       TEXT NOT NULL,
  importance REAL,
  tokens     INTEGER,
  tokens_by  TEXT
);

CREATE TABLE episodes (
  doc              INTEGER PRIMARY KEY REFERENCES documents (doc) ON DELETE CASCADE,
  task_id          TEXT,
  outcome          TEXT NOT NULL,
  importance       REAL NOT NULL,
  access_count     INTEGER NOT NULL,
  last_accessed_at INTEGER,
  consolidated     INTEGER NOT NULL,
  body             TEXT NOT NULL
);

CREATE TABLE knowledge (
  doc              INTEGER PRIMARY KEY REFERENCES documents (doc) ON DELETE CASCADE,
  confidence       REAL NOT NULL,
  access_count     INTEGER NOT NULL,
  last_accessed_at INTEGER,
  updated_at       INTEGER NOT NULL,
  body             TEXT NOT NULL
);

CREATE TABLE tasks (
  user_id      TEXT NOT NULL,
  id           TEXT NOT NULL,
  agent_id     TEXT,
  session_id   TEXT,
  status       TEXT NOT NULL CHECK (status IN ('in_progress', 'completed', 'failed')),
  started_at   INTEGER NOT NULL,
  updated_at   INTEGER NOT NULL,
  completed_at INTEGER,
  body         TEXT NOT NULL,
  PRIMARY KEY (user_id, id)
) WITHOUT ROWID;
CREATE INDEX tasks_by_session ON tasks (user_id, session_id, status, started_at);

CREATE TABLE steps (
  user_id TEXT NOT NULL,
  task_id TEXT NOT NULL,
  seq     INTEGER NOT NULL,
  id      TEXT NOT NULL,
  status  TEXT NOT NULL CHECK (status IN ('pending', 'in_progress', 'completed', 'failed')),
  body    TEXT NOT NULL,
  PRIMARY KEY (user_id, id),
  UNIQUE (user_id, task_id, seq),
  FOREIGN KEY (user_id, task_id) REFERENCES tasks (user_id, id) ON DELETE CASCADE
) WITHOUT ROWID;

CREATE TABLE vectors (
  part   INTEGER PRIMARY KEY AUTOINCREMENT,
  doc    INTEGER NOT NULL REFERENCES documents (doc) ON DELETE CASCADE,
  owner  INTEGER NOT NULL,
  vector BLOB NOT NULL
);
CREATE INDEX vectors_by_owner ON vectors (owner, part);
CREATE INDEX vectors_by_doc ON vectors (doc);

-- Terms come analysed, separated by blanks: the tokeniser must only split there. The
-- owner column holds "u<number>", so that a search walks one user's rows only.
CREATE VIRTUAL TABLE search USING fts5(
  owner, terms,
  content = '', contentless_delete = 1,
  tokenize = 'ascii tokenchars ''!#$%&()*+,-./:;<=>?@[\]^_`{|}~'''
);
