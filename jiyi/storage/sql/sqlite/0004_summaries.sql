-- The running summaries of sessions, in versions. The agent is '' where a summary is of the whole
-- session; versions lie newest first in their index, so that the newest is the first row of it.

CREATE TABLE summaries (
  entry      INTEGER PRIMARY KEY,
  user_id    TEXT NOT NULL,
  session_id TEXT NOT NULL,
  agent_id   TEXT NOT NULL DEFAULT '',
  version    INTEGER NOT NULL,
  id         TEXT NOT NULL,
  upto_seq   INTEGER NOT NULL,
  created_at INTEGER NOT NULL,
  body       TEXT NOT NULL,
  UNIQUE (user_id, id)
);
CREATE UNIQUE INDEX summaries_by_session ON summaries (user_id, session_id, agent_id, version DESC);
CREATE INDEX summaries_by_user ON summaries (user_id);

-- Which versions took in a message, by its id: a message may be gone and its summary stay.
CREATE TABLE covered (
  owner   INTEGER NOT NULL,
  message TEXT NOT NULL,
  entry   INTEGER NOT NULL REFERENCES summaries (entry) ON DELETE CASCADE,
  PRIMARY KEY (owner, message, entry)
) WITHOUT ROWID;
CREATE INDEX covered_by_entry ON covered (entry);
