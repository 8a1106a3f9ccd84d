-- The tables as they are when all migrations have run. Nothing runs this file: a test compares it with
-- what the migrations make.
--
-- tenant_id is the user's id and leads every primary, unique and foreign key, so that the tables can be
-- spread over machines by it. All text is compared byte by byte (COLLATE "C"): orders are those of SQLite.
-- Moments are whole microseconds since 1970 UTC. Numbers of rows are given out per tenant (owners.next_doc).

CREATE TABLE meta (
  name  text COLLATE "C" PRIMARY KEY,
  value text COLLATE "C" NOT NULL
);

-- One row for each user, locked by whoever writes to this user. generation counts every removal and every
-- change of what is held in memory, pin_changes those of pins.
CREATE TABLE owners (
  tenant_id   text COLLATE "C" PRIMARY KEY,
  generation  bigint NOT NULL DEFAULT 0,
  pin_changes bigint NOT NULL DEFAULT 0,
  next_doc    bigint NOT NULL DEFAULT 1
) WITH (fillfactor = 50);

CREATE TABLE sessions (
  tenant_id      text COLLATE "C" NOT NULL,
  session_id     text COLLATE "C" NOT NULL,
  started_at     bigint NOT NULL,
  last_active_at bigint NOT NULL,
  next_seq       bigint NOT NULL,
  messages       bigint NOT NULL,
  PRIMARY KEY (tenant_id, session_id)
) WITH (fillfactor = 70);

-- Everything that search can find, whatever its kind: body, words (length to entry, see
-- jiyi/storage/postings.py) and the columns that only messages have (importance to tokens_by).
CREATE TABLE documents (
  tenant_id  text COLLATE "C" NOT NULL,
  doc        bigint NOT NULL,
  kind       text COLLATE "C" NOT NULL CHECK (kind IN ('message', 'episode', 'knowledge', 'fact', 'item')),
  id         text COLLATE "C" NOT NULL,
  agent_id   text COLLATE "C",
  session_id text COLLATE "C",
  role       text COLLATE "C",
  seq        bigint,
  created_at bigint NOT NULL,
  pinned     boolean NOT NULL,
  has_text   boolean NOT NULL,
  length     integer NOT NULL,
  traits     integer NOT NULL,
  speaker    text COLLATE "C",
  entry      bytea NOT NULL,
  importance double precision,
  tokens     bigint,
  tokens_by  text COLLATE "C",
  body       text COLLATE "C" NOT NULL,
  PRIMARY KEY (tenant_id, doc),
  UNIQUE (tenant_id, kind, id)
) WITH (fillfactor = 90);
CREATE UNIQUE INDEX documents_by_session ON documents (tenant_id, session_id, seq) WHERE kind = 'message';
CREATE INDEX documents_by_time ON documents (tenant_id, kind, created_at);
CREATE INDEX documents_pinned ON documents (tenant_id, session_id, seq) WHERE pinned;
CREATE INDEX documents_system ON documents (tenant_id, session_id, seq) WHERE role = 'system';

-- Records whose vectors are still to be made. A table of its own: a change in documents would write the
-- whole row and all of its indexes once more.
CREATE TABLE pending (
  tenant_id   text COLLATE "C" NOT NULL,
  doc         bigint NOT NULL,
  queued_at   bigint NOT NULL DEFAULT (extract(epoch FROM now()) * 1000000)::bigint,
  lease_until bigint NOT NULL DEFAULT 0,
  PRIMARY KEY (tenant_id, doc),
  FOREIGN KEY (tenant_id, doc) REFERENCES documents (tenant_id, doc) ON DELETE CASCADE
) WITH (fillfactor = 70);
CREATE INDEX pending_by_age ON pending (queued_at, doc);

CREATE TABLE episodes (
  tenant_id        text COLLATE "C" NOT NULL,
  doc              bigint NOT NULL,
  task_id          text COLLATE "C",
  outcome          text COLLATE "C" NOT NULL,
  importance       double precision NOT NULL,
  access_count     bigint NOT NULL,
  last_accessed_at bigint,
  consolidated     boolean NOT NULL,
  target_key       text COLLATE "C" NOT NULL,
  PRIMARY KEY (tenant_id, doc),
  FOREIGN KEY (tenant_id, doc) REFERENCES documents (tenant_id, doc) ON DELETE CASCADE
) WITH (fillfactor = 80);
CREATE INDEX episodes_by_target ON episodes (tenant_id, consolidated, target_key);

CREATE TABLE knowledge (
  tenant_id        text COLLATE "C" NOT NULL,
  doc              bigint NOT NULL,
  confidence       double precision NOT NULL,
  access_count     bigint NOT NULL,
  last_accessed_at bigint,
  updated_at       bigint NOT NULL,
  PRIMARY KEY (tenant_id, doc),
  FOREIGN KEY (tenant_id, doc) REFERENCES documents (tenant_id, doc) ON DELETE CASCADE
) WITH (fillfactor = 80);

CREATE TABLE facts (
  tenant_id        text COLLATE "C" NOT NULL,
  doc              bigint NOT NULL,
  subject_key      text COLLATE "C" NOT NULL,
  predicate_key    text COLLATE "C" NOT NULL,
  object_key       text COLLATE "C" NOT NULL,
  status           text COLLATE "C" NOT NULL CHECK (status IN ('active', 'unsure', 'superseded', 'retracted', 'expired')),
  valid_from       bigint,
  valid_to         bigint,
  confidence       double precision NOT NULL,
  supersedes       text COLLATE "C",
  superseded_by    text COLLATE "C",
  access_count     bigint NOT NULL,
  last_accessed_at bigint,
  PRIMARY KEY (tenant_id, doc),
  FOREIGN KEY (tenant_id, doc) REFERENCES documents (tenant_id, doc) ON DELETE CASCADE
) WITH (fillfactor = 80);
CREATE INDEX facts_by_subject ON facts (tenant_id, subject_key, predicate_key);
CREATE INDEX facts_by_point ON facts (tenant_id, predicate_key);
CREATE INDEX facts_by_object ON facts (tenant_id, object_key);
CREATE INDEX facts_by_end ON facts (tenant_id, valid_to) WHERE valid_to IS NOT NULL AND status = 'active';

-- Which records a fact or a knowledge rests on: messages or episodes, by their ids.
CREATE TABLE sources (
  tenant_id text COLLATE "C" NOT NULL,
  source    text COLLATE "C" NOT NULL,
  doc       bigint NOT NULL,
  PRIMARY KEY (tenant_id, source, doc),
  FOREIGN KEY (tenant_id, doc) REFERENCES documents (tenant_id, doc) ON DELETE CASCADE
);
CREATE INDEX sources_by_doc ON sources (tenant_id, doc);

-- One row for each part of a record's text. space is the number of the set of vectors: another one can be
-- made beside the one that is searched. kind is that of the record. Vectors stay in the row up to a page,
-- where a search reads them at once.
CREATE TABLE vectors (
  tenant_id text COLLATE "C" NOT NULL,
  doc       bigint NOT NULL,
  space     smallint NOT NULL,
  part      integer NOT NULL,
  kind      text COLLATE "C" NOT NULL,
  vector    halfvec NOT NULL,
  PRIMARY KEY (tenant_id, doc, space, part),
  FOREIGN KEY (tenant_id, doc) REFERENCES documents (tenant_id, doc) ON DELETE CASCADE
);
ALTER TABLE vectors ALTER COLUMN vector SET STORAGE MAIN;
CREATE INDEX vectors_other ON vectors (tenant_id, space, kind) WHERE kind <> 'message';

CREATE TABLE tasks (
  tenant_id    text COLLATE "C" NOT NULL,
  id           text COLLATE "C" NOT NULL,
  agent_id     text COLLATE "C",
  session_id   text COLLATE "C",
  status       text COLLATE "C" NOT NULL CHECK (status IN ('in_progress', 'completed', 'failed')),
  started_at   bigint NOT NULL,
  updated_at   bigint NOT NULL,
  completed_at bigint,
  body         text COLLATE "C" NOT NULL,
  PRIMARY KEY (tenant_id, id)
) WITH (fillfactor = 80);
CREATE INDEX tasks_by_session ON tasks (tenant_id, session_id, status, started_at);

CREATE TABLE steps (
  tenant_id text COLLATE "C" NOT NULL,
  task_id   text COLLATE "C" NOT NULL,
  seq       bigint NOT NULL,
  id        text COLLATE "C" NOT NULL,
  status    text COLLATE "C" NOT NULL CHECK (status IN ('pending', 'in_progress', 'completed', 'failed')),
  body      text COLLATE "C" NOT NULL,
  PRIMARY KEY (tenant_id, id),
  UNIQUE (tenant_id, task_id, seq),
  FOREIGN KEY (tenant_id, task_id) REFERENCES tasks (tenant_id, id) ON DELETE CASCADE
) WITH (fillfactor = 80);

-- The running summaries of sessions, in versions. The agent is '' where a summary is of the whole session.
CREATE TABLE summaries (
  tenant_id  text COLLATE "C" NOT NULL,
  entry      bigint NOT NULL,
  session_id text COLLATE "C" NOT NULL,
  agent_id   text COLLATE "C" NOT NULL,
  version    bigint NOT NULL,
  id         text COLLATE "C" NOT NULL,
  upto_seq   bigint NOT NULL,
  created_at bigint NOT NULL,
  body       text COLLATE "C" NOT NULL,
  PRIMARY KEY (tenant_id, entry),
  UNIQUE (tenant_id, id),
  UNIQUE (tenant_id, session_id, agent_id, version)
);

-- Which versions took in a message, by its id: a message may be gone and its summary stay.
CREATE TABLE covered (
  tenant_id text COLLATE "C" NOT NULL,
  message   text COLLATE "C" NOT NULL,
  entry     bigint NOT NULL,
  PRIMARY KEY (tenant_id, message, entry),
  FOREIGN KEY (tenant_id, entry) REFERENCES summaries (tenant_id, entry) ON DELETE CASCADE
);
CREATE INDEX covered_by_entry ON covered (tenant_id, entry);

-- What was taken out and can be brought back. The body holds the whole record; doc is the number it had in
-- documents, none for a task, and has again when it returns.
CREATE TABLE trash (
  tenant_id    text COLLATE "C" NOT NULL,
  kind         text COLLATE "C" NOT NULL,
  id           text COLLATE "C" NOT NULL,
  entry        bigint NOT NULL,
  doc          bigint,
  agent_id     text COLLATE "C",
  session_id   text COLLATE "C",
  discarded_at bigint NOT NULL,
  reason       text COLLATE "C" NOT NULL,
  body         text COLLATE "C" NOT NULL,
  PRIMARY KEY (tenant_id, kind, id),
  UNIQUE (tenant_id, entry)
);
CREATE INDEX trash_by_time ON trash (discarded_at);
CREATE INDEX trash_of_tenant ON trash (tenant_id, discarded_at);

-- What another index than vectors holds (jiyi/storage/chroma). A record with vectors there has one row in
-- vectors all the same, without numbers. A token names a record's vectors and is never used twice; what is
-- 'going' is still to be taken out there.
CREATE TABLE chroma_items (
  tenant_id   text COLLATE "C" NOT NULL,
  token       text COLLATE "C" NOT NULL,
  doc         bigint NOT NULL,
  space       smallint NOT NULL,
  parts       integer NOT NULL,
  state       text COLLATE "C" NOT NULL CHECK (state IN ('adding', 'held', 'going')),
  lease_until bigint NOT NULL,
  PRIMARY KEY (tenant_id, token)
);
CREATE INDEX chroma_items_by_doc ON chroma_items (tenant_id, doc, space);
CREATE INDEX chroma_items_unsettled ON chroma_items (state, lease_until) WHERE state <> 'held';

-- How far a language model has read each session. next_seq is the place of the first message that was
-- not read; until wait_until, in microseconds, nobody else takes the session: its holder reads it, or a
-- try failed. A row goes with its session.

CREATE TABLE readings (
  tenant_id  text COLLATE "C" NOT NULL,
  session_id text COLLATE "C" NOT NULL,
  next_seq   bigint NOT NULL,
  holder     text COLLATE "C" NOT NULL,
  wait_until bigint NOT NULL,
  failures   bigint NOT NULL,
  PRIMARY KEY (tenant_id, session_id),
  FOREIGN KEY (tenant_id, session_id) REFERENCES sessions (tenant_id, session_id) ON DELETE CASCADE
) WITH (fillfactor = 70);

-- What was answered to requests that carry an idempotency key, so that the same request again is answered
-- and not done again. made_at is in microseconds; asked tells whether it is the same request.

CREATE TABLE answers (
  tenant_id text COLLATE "C" NOT NULL,
  key       text COLLATE "C" NOT NULL,
  made_at   bigint NOT NULL,
  asked     text COLLATE "C" NOT NULL,
  status    integer NOT NULL,
  body      text COLLATE "C" NOT NULL,
  PRIMARY KEY (tenant_id, key)
);

-- Values kept under a key in a namespace; path is the namespace as jiyi/records/item.py writes it.
CREATE TABLE items (
  tenant_id  text COLLATE "C" NOT NULL,
  doc        bigint NOT NULL,
  path       text COLLATE "C" NOT NULL,
  updated_at bigint NOT NULL,
  expires_at bigint,
  PRIMARY KEY (tenant_id, doc),
  FOREIGN KEY (tenant_id, doc) REFERENCES documents (tenant_id, doc) ON DELETE CASCADE
) WITH (fillfactor = 80);
CREATE INDEX items_by_path ON items (tenant_id, path);
CREATE INDEX items_by_end ON items (tenant_id, expires_at) WHERE expires_at IS NOT NULL;

-- The second wall: a transaction sees the rows of the tenant it names, and no rows where it names none.
-- Only what looks after all users, such as a search for expired trash, may see every row.
ALTER TABLE owners ENABLE ROW LEVEL SECURITY, FORCE ROW LEVEL SECURITY;
ALTER TABLE sessions ENABLE ROW LEVEL SECURITY, FORCE ROW LEVEL SECURITY;
ALTER TABLE documents ENABLE ROW LEVEL SECURITY, FORCE ROW LEVEL SECURITY;
ALTER TABLE pending ENABLE ROW LEVEL SECURITY, FORCE ROW LEVEL SECURITY;
ALTER TABLE episodes ENABLE ROW LEVEL SECURITY, FORCE ROW LEVEL SECURITY;
ALTER TABLE knowledge ENABLE ROW LEVEL SECURITY, FORCE ROW LEVEL SECURITY;
ALTER TABLE facts ENABLE ROW LEVEL SECURITY, FORCE ROW LEVEL SECURITY;
ALTER TABLE sources ENABLE ROW LEVEL SECURITY, FORCE ROW LEVEL SECURITY;
ALTER TABLE vectors ENABLE ROW LEVEL SECURITY, FORCE ROW LEVEL SECURITY;
ALTER TABLE tasks ENABLE ROW LEVEL SECURITY, FORCE ROW LEVEL SECURITY;
ALTER TABLE steps ENABLE ROW LEVEL SECURITY, FORCE ROW LEVEL SECURITY;
ALTER TABLE summaries ENABLE ROW LEVEL SECURITY, FORCE ROW LEVEL SECURITY;
ALTER TABLE covered ENABLE ROW LEVEL SECURITY, FORCE ROW LEVEL SECURITY;
ALTER TABLE trash ENABLE ROW LEVEL SECURITY, FORCE ROW LEVEL SECURITY;
ALTER TABLE chroma_items ENABLE ROW LEVEL SECURITY, FORCE ROW LEVEL SECURITY;
ALTER TABLE readings ENABLE ROW LEVEL SECURITY, FORCE ROW LEVEL SECURITY;
ALTER TABLE answers ENABLE ROW LEVEL SECURITY, FORCE ROW LEVEL SECURITY;
ALTER TABLE items ENABLE ROW LEVEL SECURITY, FORCE ROW LEVEL SECURITY;
CREATE POLICY tenant ON owners USING (
  tenant_id = current_setting('jiyi.tenant', true) OR current_setting('jiyi.every_tenant', true) = 'on');
CREATE POLICY tenant ON sessions USING (
  tenant_id = current_setting('jiyi.tenant', true) OR current_setting('jiyi.every_tenant', true) = 'on');
CREATE POLICY tenant ON documents USING (
  tenant_id = current_setting('jiyi.tenant', true) OR current_setting('jiyi.every_tenant', true) = 'on');
CREATE POLICY tenant ON pending USING (
  tenant_id = current_setting('jiyi.tenant', true) OR current_setting('jiyi.every_tenant', true) = 'on');
CREATE POLICY tenant ON episodes USING (
  tenant_id = current_setting('jiyi.tenant', true) OR current_setting('jiyi.every_tenant', true) = 'on');
CREATE POLICY tenant ON knowledge USING (
  tenant_id = current_setting('jiyi.tenant', true) OR current_setting('jiyi.every_tenant', true) = 'on');
CREATE POLICY tenant ON facts USING (
  tenant_id = current_setting('jiyi.tenant', true) OR current_setting('jiyi.every_tenant', true) = 'on');
CREATE POLICY tenant ON sources USING (
  tenant_id = current_setting('jiyi.tenant', true) OR current_setting('jiyi.every_tenant', true) = 'on');
CREATE POLICY tenant ON vectors USING (
  tenant_id = current_setting('jiyi.tenant', true) OR current_setting('jiyi.every_tenant', true) = 'on');
CREATE POLICY tenant ON tasks USING (
  tenant_id = current_setting('jiyi.tenant', true) OR current_setting('jiyi.every_tenant', true) = 'on');
CREATE POLICY tenant ON steps USING (
  tenant_id = current_setting('jiyi.tenant', true) OR current_setting('jiyi.every_tenant', true) = 'on');
CREATE POLICY tenant ON summaries USING (
  tenant_id = current_setting('jiyi.tenant', true) OR current_setting('jiyi.every_tenant', true) = 'on');
CREATE POLICY tenant ON covered USING (
  tenant_id = current_setting('jiyi.tenant', true) OR current_setting('jiyi.every_tenant', true) = 'on');
CREATE POLICY tenant ON trash USING (
  tenant_id = current_setting('jiyi.tenant', true) OR current_setting('jiyi.every_tenant', true) = 'on');
CREATE POLICY tenant ON chroma_items USING (
  tenant_id = current_setting('jiyi.tenant', true) OR current_setting('jiyi.every_tenant', true) = 'on');
CREATE POLICY tenant ON readings USING (
  tenant_id = current_setting('jiyi.tenant', true) OR current_setting('jiyi.every_tenant', true) = 'on');
CREATE POLICY tenant ON answers USING (
  tenant_id = current_setting('jiyi.tenant', true) OR current_setting('jiyi.every_tenant', true) = 'on');
CREATE POLICY tenant ON items USING (
  tenant_id = current_setting('jiyi.tenant', true) OR current_setting('jiyi.every_tenant', true) = 'on');
