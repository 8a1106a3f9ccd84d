-- Facts, what rests on what, and the trash. A step in Python fills the new columns of the rows
-- that are there.

-- The list of kinds in the CHECK of documents grows. SQLite cannot alter a constraint; this is the
-- way its manual gives for changes that leave the rows as they are (lang_altertable.html, 7).
PRAGMA writable_schema = ON;
UPDATE sqlite_schema
SET sql = replace(sql, '''message'', ''episode'', ''knowledge''', '''message'', ''episode'', ''knowledge'', ''fact''')
WHERE type = 'table' AND name = 'documents';
PRAGMA writable_schema = RESET;

ALTER TABLE episodes ADD COLUMN owner INTEGER NOT NULL DEFAULT 0;
ALTER TABLE episodes ADD COLUMN target_key TEXT NOT NULL DEFAULT '';
CREATE INDEX episodes_by_target ON episodes (owner, consolidated, target_key);

CREATE TABLE facts (
  doc              INTEGER PRIMARY KEY REFERENCES documents (doc) ON DELETE CASCADE,
  owner            INTEGER NOT NULL,
  subject_key      TEXT NOT NULL,
  predicate_key    TEXT NOT NULL,
  object_key       TEXT NOT NULL,
  status           TEXT NOT NULL CHECK (status IN ('active', 'superseded', 'retracted', 'expired')),
  valid_from       INTEGER,
  valid_to         INTEGER,
  confidence       REAL NOT NULL,
  supersedes       TEXT,
  superseded_by    TEXT,
  access_count     INTEGER NOT NULL,
  last_accessed_at INTEGER,
  body             TEXT NOT NULL
);
CREATE INDEX facts_by_subject ON facts (owner, subject_key, predicate_key);
CREATE INDEX facts_by_object ON facts (owner, object_key);
CREATE INDEX facts_by_end ON facts (owner, valid_to) WHERE valid_to IS NOT NULL AND status = 'active';

-- Which records a fact or a knowledge rests on: messages or episodes, by their ids.
CREATE TABLE sources (
  owner  INTEGER NOT NULL,
  source TEXT NOT NULL,
  doc    INTEGER NOT NULL REFERENCES documents (doc) ON DELETE CASCADE,
  PRIMARY KEY (owner, source, doc)
) WITHOUT ROWID;
CREATE INDEX sources_by_doc ON sources (doc);

-- What was taken out and can be brought back. The body holds the whole record; doc is the number it
-- had in documents, none for a task, and has again when it returns.
CREATE TABLE trash (
  entry        INTEGER PRIMARY KEY,
  user_id      TEXT NOT NULL,
  kind         TEXT NOT NULL,
  id           TEXT NOT NULL,
  doc          INTEGER,
  agent_id     TEXT,
  session_id   TEXT,
  discarded_at INTEGER NOT NULL,
  reason       TEXT NOT NULL,
  body         TEXT NOT NULL,
  UNIQUE (user_id, kind, id)
);
CREATE INDEX trash_by_time ON trash (discarded_at);

-- Counts the changes of pins, which windows in memory notice beside the removals.
ALTER TABLE owners ADD COLUMN pin_changes INTEGER NOT NULL DEFAULT 0;

-- A task that goes takes its steps along: without this each one is looked for among all steps.
CREATE INDEX steps_by_task ON steps (task_id);
