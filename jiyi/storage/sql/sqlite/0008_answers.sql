-- What was answered to requests that carry an idempotency key, so that the same request again is answered
-- and not done again. made_at is in microseconds; asked tells whether it is the same request.

CREATE TABLE answers (
  user_id TEXT NOT NULL,
  key     TEXT NOT NULL,
  made_at INTEGER NOT NULL,
  asked   TEXT NOT NULL,
  status  INTEGER NOT NULL,
  body    TEXT NOT NULL,
  PRIMARY KEY (user_id, key)
) WITHOUT ROWID;
