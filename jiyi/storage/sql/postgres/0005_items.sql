-- Values kept under a key in a namespace; path is the namespace as jiyi/records/item.py writes it.

ALTER TABLE documents DROP CONSTRAINT documents_kind_check;
ALTER TABLE documents ADD CONSTRAINT documents_kind_check
  CHECK (kind IN ('message', 'episode', 'knowledge', 'fact', 'item'));

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

ALTER TABLE items ENABLE ROW LEVEL SECURITY, FORCE ROW LEVEL SECURITY;
CREATE POLICY tenant ON items USING (
  tenant_id = current_setting('jiyi.tenant', true) OR current_setting('jiyi.every_tenant', true) = 'on');
