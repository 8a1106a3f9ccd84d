-- How far a language model has read each session. next_seq is the place of the first message that was
-- not read; until wait_until, in microseconds, nobody else takes the session: its holder reads it, or a
-- try failed. A row goes with its session.

CREATE TABLE readings (
  user_id    TEXT NOT NULL,
  session_id TEXT NOT NULL,
  next_seq   INTEGER NOT NULL,
  holder     TEXT NOT NULL,
  wait_until INTEGER NOT NULL,
  failures   INTEGER NOT NULL,
  PRIMARY KEY (user_id, session_id),
  FOREIGN KEY (user_id, session_id) REFERENCES sessions (user_id, session_id) ON DELETE CASCADE
) WITHOUT ROWID;
