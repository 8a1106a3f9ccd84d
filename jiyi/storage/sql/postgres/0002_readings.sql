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

ALTER TABLE readings ENABLE ROW LEVEL SECURITY, FORCE ROW LEVEL SECURITY;
CREATE POLICY tenant ON readings USING (
  tenant_id = current_setting('jiyi.tenant', true) OR current_setting('jiyi.every_tenant', true) = 'on');
