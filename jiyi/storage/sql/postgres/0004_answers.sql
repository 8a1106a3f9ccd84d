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

ALTER TABLE answers ENABLE ROW LEVEL SECURITY, FORCE ROW LEVEL SECURITY;
CREATE POLICY tenant ON answers USING (
  tenant_id = current_setting('jiyi.tenant', true) OR current_setting('jiyi.every_tenant', true) = 'on');
