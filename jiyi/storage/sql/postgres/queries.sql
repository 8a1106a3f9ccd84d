-- Statements in PostgreSQL's dialect; names, parameters and columns are mostly those of
-- ../sqlite/queries.sql. Every statement names the tenant on every table, or says in its first line why it
-- reads those of all tenants. {where} is replaced by conditions that begin with the tenant.
-- = ANY(ARRAY(SELECT ...)) instead of IN where the SELECT has a limit: a join with it would run it for each row
-- where statistics say that the table is empty.

-- Users

-- name: get_owner
SELECT 0, generation, generation + pin_changes FROM owners WHERE tenant_id = :user_id;

-- name: lock_owner
SELECT next_doc FROM owners WHERE tenant_id = :user_id FOR UPDATE;

-- name: set_next_doc
UPDATE owners SET next_doc = :next_doc WHERE tenant_id = :user_id;

-- Messages, episodes, knowledge, facts

-- name: add_document
INSERT INTO documents (
  tenant_id, doc, kind, id, agent_id, session_id, role, seq, created_at, pinned, has_text,
  length, traits, speaker, entry, importance, tokens, tokens_by, body
)
VALUES (
  :user_id, :doc, :kind, :id, :agent_id, :session_id, :role, :seq, :created_at, (:pinned)::int::boolean,
  :vector_state::text <> 'none', :length, :traits, :speaker, :entry, :importance, :tokens, :tokens_by, :body
);

-- name: add_pending
INSERT INTO pending (tenant_id, doc) VALUES (:user_id, :doc);

-- name: change_document
UPDATE documents SET
  agent_id = :agent_id, session_id = :session_id, created_at = :created_at,
  pinned = (:pinned)::int::boolean, body = :body
WHERE tenant_id = :user_id AND kind = :kind AND id = :id
RETURNING doc;

-- name: find_message
SELECT d.doc, d.tenant_id AS user_id, d.agent_id, d.session_id, d.id, d.seq, d.created_at,
       d.pinned::int AS pinned, d.body, d.importance, d.tokens, d.tokens_by
FROM documents AS d
WHERE {where} ORDER BY {by} {order} LIMIT :limit;

-- name: count_documents
SELECT d.kind, count(*), count(p.doc)
FROM documents AS d LEFT JOIN pending AS p ON p.tenant_id = :user_id AND p.doc = d.doc
WHERE {where} GROUP BY d.kind;

-- name: read_words
SELECT id, length, traits, entry FROM documents WHERE tenant_id = :user_id AND doc = ANY(:docs);

-- name: read_terms
SELECT doc, kind, id, role, session_id, agent_id, seq, created_at, length, traits, speaker, entry
FROM documents WHERE tenant_id = :user_id AND doc > :after ORDER BY doc LIMIT :limit;

-- name: amend_message
UPDATE documents SET importance = coalesce(:importance, importance) WHERE tenant_id = :user_id AND doc = :doc;

-- Summaries

-- name: add_summary
INSERT INTO summaries (tenant_id, entry, session_id, agent_id, version, id, upto_seq, created_at, body)
VALUES (
  :user_id, :entry, :session_id, coalesce(:agent_id, ''), :version, :id, :upto_seq, :created_at, :body
)
RETURNING entry;

-- name: drop_summaries_without
-- Those of the session, of all and of the message's agent, that span its place but do not cover it.
DELETE FROM summaries
WHERE tenant_id = :user_id AND session_id = :session_id AND agent_id IN ('', coalesce(:agent_id, ''))
  AND upto_seq >= :seq AND NOT EXISTS (
    SELECT 1 FROM covered AS c
    JOIN summaries AS other ON other.tenant_id = :user_id AND other.entry = c.entry
    WHERE c.tenant_id = :user_id AND c.message = :id
      AND other.session_id = :session_id AND other.agent_id = summaries.agent_id
  );

-- Trash

-- name: put_trash
INSERT INTO trash (tenant_id, kind, id, entry, doc, agent_id, session_id, discarded_at, reason, body)
VALUES (:user_id, :kind, :id, :entry, :doc, :agent_id, :session_id, :discarded_at, :reason, :body)
ON CONFLICT (tenant_id, kind, id) DO UPDATE SET
  doc = excluded.doc, agent_id = excluded.agent_id, session_id = excluded.session_id,
  discarded_at = excluded.discarded_at, reason = excluded.reason, body = excluded.body;

-- name: erase_trash
DELETE FROM trash WHERE tenant_id = :user_id AND entry = ANY(ARRAY(
  SELECT t.entry FROM trash AS t WHERE {where} LIMIT :limit
))
RETURNING 1;

-- State of vectors

-- name: lock_meta
-- every tenant: a table of the whole database
SELECT value FROM meta WHERE name = 'application' FOR UPDATE;

-- name: first_pending
-- every tenant: the users with pending records are not known before
SELECT tenant_id AS user_id, doc FROM pending
WHERE lease_until >= 0 AND (lease_until <= :now OR lease_until > 2 * :until - :now)
ORDER BY queued_at, doc LIMIT :limit;

-- name: pending_of
SELECT doc FROM pending
WHERE tenant_id = :user_id AND lease_until >= 0 AND (lease_until <= :now OR lease_until > 2 * :until - :now)
ORDER BY queued_at, doc LIMIT :limit;

-- name: lease_pending
UPDATE pending AS p SET lease_until = :until FROM documents AS d
WHERE p.tenant_id = :user_id AND d.tenant_id = :user_id AND d.doc = p.doc
  AND p.doc = ANY(:docs) AND p.lease_until >= 0 AND (p.lease_until <= :now OR p.lease_until > 2 * :until - :now)
RETURNING p.doc, d.kind, d.id, d.role;

-- name: count_pending
-- every tenant: a figure of the whole database
SELECT count(*) FROM pending;

-- name: set_aside
UPDATE pending SET lease_until = :lease WHERE tenant_id = :user_id AND doc = :doc;

-- name: count_set_aside
-- every tenant: a figure of the whole database
SELECT -lease_until, count(*) FROM pending WHERE lease_until < 0 GROUP BY 1;

-- name: count_set_aside_of_user
SELECT -lease_until, count(*) FROM pending WHERE tenant_id = :user_id AND lease_until < 0 GROUP BY 1;

-- name: requeue_set_aside
UPDATE pending SET lease_until = 0 WHERE tenant_id = :user_id AND lease_until < 0
RETURNING doc;

-- name: complete
WITH settled AS (
  DELETE FROM pending WHERE tenant_id = :user_id AND doc = ANY(:docs) RETURNING doc
)
SELECT d.doc, d.kind FROM documents AS d
WHERE d.tenant_id = :user_id AND d.doc IN (SELECT doc FROM settled);

-- name: mark_textless
UPDATE documents SET has_text = false WHERE tenant_id = :user_id AND doc = ANY(:docs);

-- name: mark_ready
-- Records with vectors of the searched set are not pending.
DELETE FROM pending AS p WHERE p.tenant_id = :user_id AND EXISTS (
  SELECT 1 FROM vectors AS v WHERE v.tenant_id = :user_id AND v.doc = p.doc AND v.space = :space
);

-- name: mark_pending
-- Records with a text and no vectors of the searched set are pending.
INSERT INTO pending (tenant_id, doc)
SELECT d.tenant_id, d.doc FROM documents AS d
WHERE d.tenant_id = :user_id AND d.has_text AND NOT EXISTS (
  SELECT 1 FROM vectors AS v WHERE v.tenant_id = :user_id AND v.doc = d.doc AND v.space = :space
)
ON CONFLICT (tenant_id, doc) DO NOTHING;

-- name: drop_space
DELETE FROM vectors WHERE tenant_id = :user_id AND space = :space AND doc = ANY(ARRAY(
  SELECT v.doc FROM vectors AS v WHERE v.tenant_id = :user_id AND v.space = :space LIMIT :limit
))
RETURNING 1;

-- Vectors

-- name: add_vector
INSERT INTO vectors (tenant_id, doc, space, part, kind, vector)
VALUES (:user_id, :doc, :space, :part, :kind, :vector::halfvec)
ON CONFLICT (tenant_id, doc, space, part) DO UPDATE SET vector = excluded.vector;

-- name: nearest
-- {of_kinds} is nearest_exactly or nearest_by_index for each kind, joined by UNION ALL.
SELECT n.kind, n.doc, -n.below
FROM (
  {of_kinds}
) AS n
ORDER BY n.below, n.doc DESC;

-- name: nearest_exactly
-- All vectors of the user that the conditions allow are compared exactly.
-- Rows and query have length 1, so that the inner product is the cosine; <#> returns it negated. The
-- query is the sum of two halfvecs: one alone would be rounded, which changes the order.
(
  SELECT v.kind, v.doc, (v.vector <#> :vector::halfvec) + (v.vector <#> :rest::halfvec) AS below
  FROM vectors AS v
  WHERE v.tenant_id = :user_id AND v.kind = '{kind}' AND v.space = (
    SELECT coalesce(max(value), '0')::smallint FROM meta WHERE name = 'embedder_space'
  ) {and_where}
  ORDER BY below, v.doc DESC LIMIT :parts
);

-- name: nearest_by_index
-- As nearest_exactly, but the index finds the candidates, which are then sorted exactly. The numbers are
-- written out so that the planner recognizes the index; they are valid as long as this set is searched.
(
  SELECT a.kind, a.doc, a.below
  FROM (
    SELECT v.kind, v.doc, (v.vector <#> :vector::halfvec) + (v.vector <#> :rest::halfvec) AS below
    FROM vectors AS v
    WHERE v.tenant_id = :user_id AND v.kind = '{kind}' AND v.space = {space} AND {space} = (
      SELECT coalesce(max(value), '0')::smallint FROM meta WHERE name = 'embedder_space'
    )
    ORDER BY v.vector::halfvec({dims}) <=> :vector::halfvec({dims}) LIMIT :nearby
  ) AS a
  ORDER BY a.below, a.doc DESC LIMIT :parts
);

-- name: count_kinds
SELECT kind, count(*) FROM documents WHERE tenant_id = :user_id GROUP BY kind;

-- name: ann_index
-- every tenant: an index of the whole table
SELECT c.relname::text, greatest(c.reltuples, 0)::bigint
FROM pg_class AS c JOIN pg_index AS i ON i.indexrelid = c.oid
WHERE i.indrelid = 'vectors'::regclass AND i.indisvalid AND c.relname = (
  SELECT 'vectors_ann_' || coalesce(max(value) FILTER (WHERE name = 'embedder_space'), '0') || '_'
         || max(value) FILTER (WHERE name = 'embedder_dims')
  FROM meta
);

-- name: ann_names
-- every tenant: indexes of the whole table
SELECT c.relname::text FROM pg_class AS c JOIN pg_index AS i ON i.indexrelid = c.oid
WHERE i.indrelid = 'vectors'::regclass AND c.relname ~ '^vectors_ann_';

-- name: ann_size
-- every tenant: indexes of the whole table
SELECT coalesce(sum(pg_relation_size(i.indexrelid)), 0)::bigint
FROM pg_class AS c JOIN pg_index AS i ON i.indexrelid = c.oid
WHERE i.indrelid = 'vectors'::regclass AND c.relname ~ '^vectors_ann_';

-- name: make_ann
-- every tenant: an index of the whole table
CREATE INDEX CONCURRENTLY {name} ON vectors USING hnsw ((vector::halfvec({dims})) halfvec_cosine_ops)
WITH (m = {m}, ef_construction = {ef_construction}) WHERE space = {space};

-- name: dims_held
SELECT vector_dims(vector) FROM vectors WHERE tenant_id = :user_id LIMIT 1;

-- name: vectors_after
SELECT doc, halfvec_send(vector) FROM vectors
WHERE tenant_id = :user_id AND doc > :after AND space = :space::smallint
ORDER BY doc, part LIMIT :limit;

-- name: vectors_of_docs
-- By the key of each record: without statistics of the table the planner would scan all.
SELECT v.doc, halfvec_send(v.vector)
FROM unnest(:docs::bigint[]) AS asked (doc) CROSS JOIN LATERAL (
  SELECT v.doc, v.part, v.vector FROM vectors AS v
  WHERE v.tenant_id = :user_id AND v.doc = asked.doc AND v.space = :space::smallint OFFSET 0
) AS v
ORDER BY v.doc, v.part;

-- Consistency checks

-- name: totals
-- every tenant: figures of the whole database
SELECT o.number, d.number, p.number, s.number
FROM (SELECT count(*) AS number FROM owners) AS o, (SELECT count(*) AS number FROM documents) AS d,
     (SELECT count(*) AS number FROM pending) AS p, (SELECT count(*) AS number FROM summaries) AS s;

-- name: records_that_never_get_vectors
-- every tenant: looks at the whole database
SELECT count(*) FROM documents AS d
WHERE d.has_text
  AND NOT EXISTS (SELECT 1 FROM pending AS p WHERE p.tenant_id = d.tenant_id AND p.doc = d.doc)
  AND NOT EXISTS (
    SELECT 1 FROM vectors AS v WHERE v.tenant_id = d.tenant_id AND v.doc = d.doc AND v.space = (
      SELECT coalesce(max(value), '0')::smallint FROM meta WHERE name = 'embedder_space'
    )
  );

-- name: records_with_vectors_that_wait
-- every tenant: looks at the whole database
SELECT count(*) FROM pending AS p
WHERE EXISTS (
  SELECT 1 FROM vectors AS v WHERE v.tenant_id = p.tenant_id AND v.doc = p.doc AND v.space = (
    SELECT coalesce(max(value), '0')::smallint FROM meta WHERE name = 'embedder_space'
  )
);

-- name: sessions_with_wrong_counts
-- every tenant: looks at the whole database
SELECT count(*) FROM sessions AS s
FULL JOIN (
  SELECT tenant_id, session_id, count(*) AS messages, max(seq) AS last_seq FROM documents
  WHERE kind = 'message' GROUP BY tenant_id, session_id
) AS d ON d.tenant_id = s.tenant_id AND d.session_id = s.session_id
WHERE s.messages IS DISTINCT FROM d.messages OR s.next_seq <= d.last_seq;

-- name: numbers_that_would_come_again
-- every tenant: looks at the whole database
SELECT count(*) FROM (
  SELECT tenant_id, max(doc) AS newest FROM documents GROUP BY tenant_id
) AS d LEFT JOIN owners AS o ON o.tenant_id = d.tenant_id
WHERE o.next_doc IS NULL OR o.next_doc <= d.newest;

-- name: may_vacuum
-- every tenant: tells of a right
SELECT pg_has_role(c.relowner, 'USAGE') OR (SELECT rolsuper FROM pg_roles WHERE rolname = current_user),
       pg_get_userbyid(c.relowner)::text
FROM pg_class AS c WHERE c.oid = to_regclass(:name);

-- Vectors in Chroma

-- name: chroma_prepare
-- every tenant: creates the trigger that notes that a record lost its vectors
DO $$ BEGIN
  CREATE OR REPLACE FUNCTION chroma_gone() RETURNS trigger LANGUAGE plpgsql AS $gone$ BEGIN
    UPDATE chroma_items SET state = 'going'
    WHERE tenant_id = OLD.tenant_id AND doc = OLD.doc AND space = OLD.space AND state = 'held';
    RETURN NULL;
  END $gone$;
  CREATE OR REPLACE TRIGGER chroma_gone AFTER DELETE ON vectors FOR EACH ROW EXECUTE FUNCTION chroma_gone();
END $$;

-- name: chroma_leave
-- every tenant: drops what chroma_prepare created
DROP FUNCTION IF EXISTS chroma_gone() CASCADE;

-- name: chroma_mark
INSERT INTO vectors (tenant_id, doc, space, part, kind, vector)
SELECT d.tenant_id, d.doc, :space, 0, d.kind, '[0]'::halfvec FROM documents AS d
WHERE d.tenant_id = :user_id AND d.doc = :doc
ON CONFLICT (tenant_id, doc, space, part) DO NOTHING;

-- name: chroma_of_tokens
SELECT i.token, d.kind, d.id, d.doc FROM chroma_items AS i
JOIN documents AS d ON d.tenant_id = :user_id AND d.doc = i.doc
WHERE i.tenant_id = :user_id AND i.token = ANY(:tokens) AND i.space = :space AND i.state = 'held' AND {where};

-- Readings by a language model

-- name: add_to_meta
-- every tenant: a table of the whole database
INSERT INTO meta AS m (name, value) VALUES (:name, :by::text)
ON CONFLICT (name) DO UPDATE SET value = (m.value::bigint + :by)::text
RETURNING value::bigint;

-- name: drop_older_meta
-- every tenant: a table of the whole database
DELETE FROM meta WHERE starts_with(name, :prefix) AND name < :name COLLATE "C";

-- The server, the database and the cluster

-- name: inspect_database
-- every tenant: tells of the server
SELECT current_setting('server_version_num')::int / 10000, current_setting('server_encoding'),
       current_schema(), (SELECT extversion FROM pg_extension WHERE extname = 'vector'),
       (SELECT default_version FROM pg_available_extensions WHERE name = 'vector'),
       EXISTS (SELECT 1 FROM pg_extension WHERE extname = 'citus'),
       ARRAY(SELECT relname::text FROM pg_class
             WHERE relnamespace = current_schema()::regnamespace AND relname = ANY(:tables));

-- name: server_info
-- every tenant: tells of the server
SELECT split_part(current_setting('server_version'), ' ', 1) AS server,
       (SELECT extversion FROM pg_extension WHERE extname = 'vector') AS vector,
       (SELECT extversion FROM pg_extension WHERE extname = 'citus') AS citus,
       current_user AS role,
       (SELECT NOT (rolsuper OR rolbypassrls) FROM pg_roles WHERE rolname = current_user) AS walled,
       (SELECT sum(numbackends)::int FROM pg_stat_database) AS connections,
       current_setting('max_connections')::int AS most_connections;

-- name: citus_versions
-- every tenant: tells of the server
SELECT (SELECT extversion FROM pg_extension WHERE extname = 'citus'),
       (SELECT default_version FROM pg_available_extensions WHERE name = 'citus');

-- name: count_machines
-- every tenant: tells of the server
SELECT count(*) FROM pg_dist_node WHERE isactive AND noderole = 'primary' AND shouldhaveshards;

-- name: read_tables
-- every tenant: tells of the server
SELECT c.relname::text AS name, p.partmethod::text AS method, p.colocationid AS group,
       pg_relation_size(c.oid) > 0 AS filled,
       EXISTS (SELECT 1 FROM pg_attribute AS a WHERE a.attrelid = c.oid AND a.attname = 'tenant_id') AS of_tenants
FROM pg_class AS c LEFT JOIN pg_dist_partition AS p ON p.logicalrelid = c.oid
WHERE c.relnamespace = current_schema()::regnamespace AND c.relname = ANY(:tables);
