-- Conditions, named after the kind of rows and the field of the query, which is also their parameter.
-- Placeholders are as in `queries.sql`. {no_index} is a prefix that may keep an index from being used.
-- Conditions and expressions that databases write differently are in <dialect>/conditions.sql:
--   no_index       the prefix of a column that keeps its index from being used
--   record_column  a column that one database has in documents and another in a table of its own: {table}, {column}
--   json_text      a text in JSON, NULL if it is missing: {body}, {name}
--   metadata_test  a {test} holds for the value of a {key} in the metadata of JSON: {body}
--   value_in_list  a test: the value is in a JSON list: {value}
--   number_test    a test: the value is a number that compares so with another: {sign}, {value}
--   text_test      a test: the value is a text for which another {test} holds
--   value_text     the text of the value
--   contains       a {text} contains another: {value}

-- name: document_user
{no_index}d.@user = :user_id;
-- name: document_agent_id
d.agent_id = :agent_id;
-- name: document_session_id
d.session_id = :session_id;
-- name: document_ids
d.id @among(:ids);
-- name: document_without
NOT (d.id @among(:without));
-- name: document_since
d.created_at >= :since;
-- name: document_until
d.created_at < :until;
-- name: document_after_seq
d.seq > :after_seq;
-- name: document_before_seq
d.seq < :before_seq;
-- name: document_task_id
EXISTS (SELECT 1 FROM episodes AS o WHERE @same(o) AND o.task_id = :task_id);
-- name: document_status
@no;
-- name: document_sources
d.doc IN (SELECT s.doc FROM sources AS s WHERE s.@owner = @owned AND s.source @among(:sources));
-- name: document_target
d.doc IN (SELECT e.doc FROM episodes AS e WHERE e.@owner = @owned AND e.consolidated IN (@no, @yes) AND e.target_key = :target);
-- name: document_target_none
EXISTS (SELECT 1 FROM episodes AS e WHERE @same(e) AND e.target_key = '');
-- name: document_consolidated
EXISTS (SELECT 1 FROM episodes AS e WHERE @same(e) AND e.consolidated = {flag});

-- Two queries: for an OR SQLite would read all facts of the user.

-- name: document_entity
d.doc IN (SELECT f.doc FROM facts AS f WHERE f.@owner = @owned AND f.subject_key = :entity
UNION ALL SELECT f.doc FROM facts AS f WHERE f.@owner = @owned AND f.object_key = :entity);
-- name: document_subject
d.doc IN (SELECT f.doc FROM facts AS f WHERE f.@owner = @owned AND f.subject_key = :subject);
-- name: document_predicate
d.doc IN (SELECT f.doc FROM facts AS f WHERE f.@owner = @owned AND f.predicate_key @among(:predicate));
-- name: document_predicate_of_few
EXISTS (SELECT 1 FROM facts AS f WHERE @same(f) AND f.predicate_key @among(:predicate));
-- name: document_fact_status
EXISTS (SELECT 1 FROM facts AS f WHERE @same(f) AND {one_of});
-- name: document_as_of
EXISTS (SELECT 1 FROM facts AS f WHERE @same(f) AND f.status != 'retracted'
AND coalesce(f.valid_from, d.created_at) <= :as_of AND (f.valid_to IS NULL OR f.valid_to > :as_of));
-- name: document_namespace
d.doc IN (SELECT i.doc FROM items AS i WHERE i.@owner = @owned AND i.path >= :path AND i.path < :path_end);
-- name: document_there_at
d.doc NOT IN (SELECT i.doc FROM items AS i WHERE i.@owner = @owned AND i.expires_at <= :there_at);

-- name: summary_user
{no_index}s.@user = :user_id;
-- name: summary_session_id
{no_index}s.session_id = :session_id;
-- name: summary_agent_id
{no_index}s.agent_id = :agent_id;
-- name: summary_ids
s.id @among(:ids);
-- name: summary_without
NOT (s.id @among(:without));
-- name: summary_sources
s.entry IN (SELECT c.entry FROM covered AS c WHERE c.@owner = @owned AND c.message @among(:sources));
-- name: summary_since
s.created_at >= :since;
-- name: summary_until
s.created_at < :until;

-- name: session_user
s.@user = :user_id;
-- name: session_session_id
s.session_id = :session_id;
-- name: session_agent_id
EXISTS (SELECT 1 FROM documents AS d WHERE d.@user = :user_id AND d.kind = 'message' AND d.session_id = s.session_id
AND d.agent_id = :agent_id);
-- name: session_ids
s.session_id @among(:ids);
-- name: session_without
NOT (s.session_id @among(:without));
-- name: session_since
s.started_at >= :since;
-- name: session_until
s.started_at < :until;

-- name: task_user
t.@user = :user_id;
-- name: task_session_id
t.session_id = :session_id;
-- name: task_agent_id
t.agent_id = :agent_id;
-- name: task_status
t.status = :status;
-- name: task_task_id
t.id = :task_id;
-- name: task_ids
t.id @among(:ids);
-- name: task_without
NOT (t.id @among(:without));
-- name: task_since
t.started_at >= :since;
-- name: task_until
t.started_at < :until;

-- name: step_user
t.@user = :user_id;
-- name: step_session_id
t.session_id = :session_id;
-- name: step_agent_id
t.agent_id = :agent_id;
-- name: step_status
t.status = :status;
-- name: step_task_id
s.task_id = :task_id;
-- name: step_ids
s.id @among(:ids);
-- name: step_without
NOT (s.id @among(:without));
-- name: step_since
t.started_at >= :since;
-- name: step_until
t.started_at < :until;

-- name: trash_user
t.@user = :user_id;
-- name: trash_kinds
t.kind @among(:kinds);
-- name: trash_agent_id
t.agent_id = :agent_id;
-- name: trash_session_id
t.session_id = :session_id;
-- name: trash_ids
t.id @among(:ids);
-- name: trash_since
t.discarded_at >= :since;
-- name: trash_until
t.discarded_at < :until;
