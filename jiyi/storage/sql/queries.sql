-- Statements that are the same for every database, by name; the others are in <dialect>/queries.sql.
-- Where databases differ in spelling, a placeholder is used:
--   @user            the column that holds a row's user
--   @among(:values)  the value is in a list, given as a parameter
--   @least, @greatest  of two values
--   @owner, @owned   the column that holds a row's owner if that is not the user, and its value
--   @same(x)         a row of x belongs to that of documents AS d
-- and a few more, all in <dialect>/spellings.sql.
-- Every statement names the user on every table, or says in its first line why it reads those of all users
-- ("every tenant"). {where} is replaced by conditions that begin with the user.

-- name: add_owner
INSERT INTO owners (@user) VALUES (:user_id) ON CONFLICT (@user) DO NOTHING;

-- name: bump_generation
UPDATE owners SET generation = generation + 1 WHERE @user = :user_id;

-- name: bump_pin_changes
UPDATE owners SET pin_changes = pin_changes + 1 WHERE @user = :user_id;

-- name: count_changes
SELECT generation + pin_changes FROM owners WHERE @user = :user_id;

-- name: users
-- every tenant: lists them
SELECT @user FROM owners ORDER BY @user;

-- name: users_after
-- every tenant: walks through them
SELECT @user FROM owners WHERE @user > :after ORDER BY @user LIMIT :limit;

-- name: extend_session
UPDATE sessions SET
  started_at = @least(started_at, :first_at), last_active_at = @greatest(last_active_at, :last_at),
  next_seq = next_seq + :count, messages = messages + :count
WHERE @user = :user_id AND session_id = :session_id
RETURNING next_seq - :count;

-- name: seq_after_summaries
SELECT coalesce(max(upto_seq) + 1, 0) FROM summaries WHERE @user = :user_id AND session_id = :session_id;

-- name: begin_session
INSERT INTO sessions (@user, session_id, started_at, last_active_at, next_seq, messages)
VALUES (:user_id, :session_id, :first_at, :last_at, :next_seq, :count);

-- name: next_place
SELECT next_seq FROM sessions WHERE @user = :user_id AND session_id = :session_id;

-- name: return_to_session
UPDATE sessions SET
  started_at = @least(started_at, :first_at), last_active_at = @greatest(last_active_at, :last_at),
  next_seq = @greatest(next_seq, :next_seq), messages = messages + :count
WHERE @user = :user_id AND session_id = :session_id;

-- name: taken_places
SELECT seq FROM documents
WHERE @user = :user_id AND kind = 'message' AND session_id = :session_id AND seq @among(:places);

-- name: session_extent
SELECT count(*), coalesce(min(created_at), 0), coalesce(max(created_at), 0) FROM documents
WHERE @user = :user_id AND kind = 'message' AND session_id = :session_id;

-- name: set_session
UPDATE sessions SET messages = :messages, started_at = :started_at, last_active_at = :last_active_at
WHERE @user = :user_id AND session_id = :session_id;

-- name: drop_session
DELETE FROM sessions WHERE @user = :user_id AND session_id = :session_id;

-- name: find_session
SELECT @user AS user_id, session_id, started_at, last_active_at, messages, next_seq FROM sessions AS s
WHERE {where} ORDER BY {by} {order}, session_id {order} LIMIT :limit;

-- name: count_session
SELECT count(*) FROM sessions AS s WHERE {where};

-- name: document_ids
SELECT d.doc FROM documents AS d WHERE {where};

-- name: docs_of_ids
SELECT id, doc FROM documents WHERE @user = :user_id AND kind = :kind AND id @among(:ids);

-- name: delete_documents
DELETE FROM documents WHERE @user = :user_id AND kind = :kind AND id @among(:ids);

-- name: put_task
INSERT INTO tasks (@user, id, agent_id, session_id, status, started_at, updated_at, completed_at, body@crc)
VALUES (:user_id, :id, :agent_id, :session_id, :status, :started_at, :updated_at, :completed_at, :body@new_crc)
ON CONFLICT (@user, id) DO UPDATE SET
  agent_id = excluded.agent_id, session_id = excluded.session_id, started_at = excluded.started_at,
  status = excluded.status, updated_at = excluded.updated_at,
  completed_at = excluded.completed_at, body = excluded.body@set_crc;

-- name: has_task
SELECT 1 FROM tasks WHERE @user = :user_id AND id = :task_id;

-- name: next_step
-- The condition on seq lets SQLite find the last step in the index instead of reading all.
SELECT coalesce(max(seq) + 1, 0) FROM steps WHERE @user = :user_id AND task_id = :task_id AND seq >= 0;

-- name: put_step
INSERT INTO steps (@user, task_id, seq, id, status, body@crc)
VALUES (:user_id, :task_id, :seq, :id, :status, :body@new_crc)
ON CONFLICT (@user, id) DO UPDATE SET status = excluded.status, body = excluded.body@set_crc
WHERE steps.task_id = excluded.task_id
RETURNING seq;

-- name: find_task
SELECT @user AS user_id, agent_id, session_id, id, status, started_at, updated_at, completed_at, body@crc
FROM tasks AS t WHERE {where} ORDER BY started_at {order}, id {order} LIMIT :limit;

-- name: count_task
SELECT count(*) FROM tasks AS t WHERE {where};

-- name: delete_tasks
DELETE FROM tasks WHERE @user = :user_id AND id @among(:ids);

-- name: get_summary_head
SELECT id, version, upto_seq FROM summaries
WHERE @user = :user_id AND session_id = :session_id AND agent_id = coalesce(:agent_id, '')
ORDER BY version DESC LIMIT 1;

-- name: move_session_past
UPDATE sessions SET next_seq = @greatest(next_seq, :upto_seq + 1)
WHERE @user = :user_id AND session_id = :session_id;

-- name: find_summary
SELECT s.entry, s.@user AS user_id, nullif(s.agent_id, '') AS agent_id, s.session_id, s.id, s.version,
       s.upto_seq, s.created_at, s.body@crc
FROM summaries AS s WHERE {where} ORDER BY {by} {order} LIMIT :limit;

-- name: count_summary
SELECT count(*) FROM summaries AS s WHERE {where};

-- name: delete_summaries
DELETE FROM summaries WHERE @user = :user_id AND id @among(:ids);

-- name: find_trash
SELECT t.entry, t.@user AS user_id, t.agent_id, t.session_id, t.kind, t.id, t.discarded_at, t.reason, t.body@crc
FROM trash AS t WHERE {where} ORDER BY {by} LIMIT :limit;

-- name: take_trash
DELETE FROM trash WHERE @user = :user_id AND kind = :kind AND id @among(:ids)
RETURNING @user AS user_id, agent_id, session_id, kind, id, discarded_at, reason, body, doc@crc;

-- name: delete_docs
DELETE FROM documents WHERE @user = :user_id AND doc @among(:docs);

-- name: get_meta
-- every tenant: a table of the whole database
SELECT value FROM meta WHERE name = :name;

-- name: all_meta
-- every tenant: a table of the whole database
SELECT name, value FROM meta;

-- name: set_meta
-- every tenant: a table of the whole database
INSERT INTO meta (name, value) VALUES (:name, :value)
ON CONFLICT (name) DO UPDATE SET value = excluded.value;

-- name: drop_meta
-- every tenant: a table of the whole database
DELETE FROM meta WHERE name = :name;

-- name: has_vectors
-- every tenant: looks at the whole database
SELECT 1 FROM vectors LIMIT 1;

-- name: chroma_add
INSERT INTO chroma_items (@user, token, doc, space, parts, state, lease_until)
VALUES (:user_id, :token, :doc, :space, :parts, 'adding', :until);

-- name: chroma_mark_held
UPDATE chroma_items SET state = 'held' WHERE @user = :user_id AND token @among(:tokens) AND state = 'adding'
RETURNING token;

-- name: chroma_mark_going
UPDATE chroma_items SET state = 'going' WHERE @user = :user_id AND token @among(:tokens);

-- name: chroma_due
-- every tenant: looks for work that anybody left
SELECT @user, space, token, parts FROM chroma_items WHERE state = 'going'
UNION ALL
SELECT @user, space, token, parts FROM chroma_items WHERE state = 'adding' AND lease_until <= :now
LIMIT :limit;

-- name: chroma_expire
UPDATE chroma_items SET state = 'going'
WHERE @user = :user_id AND token @among(:tokens) AND state = 'adding' AND lease_until <= :now;

-- name: chroma_going
SELECT token, space, parts FROM chroma_items
WHERE @user = :user_id AND token @among(:tokens) AND state = 'going';

-- name: chroma_delete
DELETE FROM chroma_items WHERE @user = :user_id AND token @among(:tokens) AND state = 'going';

-- name: chroma_forget_space
DELETE FROM chroma_items WHERE @user = :user_id AND space = :space;

-- name: chroma_forget_all
DELETE FROM chroma_items WHERE @user = :user_id;

-- name: chroma_known_tokens
-- every tenant: looks for vectors of no record
SELECT token FROM chroma_items WHERE token @among(:tokens);

-- name: chroma_in_use
-- every tenant: a set is everybody's
SELECT 1 FROM chroma_items WHERE space = :space AND state != 'going' AND NOT token @among(:tokens) LIMIT 1;

-- name: end_reading
UPDATE readings
SET next_seq = @greatest(next_seq, :next_seq), holder = '', wait_until = :until, failures = :failures
WHERE @user = :user_id AND session_id = :session_id AND holder = :holder
RETURNING next_seq;

-- name: find_answer
SELECT asked, status, body FROM answers WHERE @user = :user_id AND key = :key AND made_at >= :since;

-- name: put_answer
INSERT INTO answers (@user, key, made_at, asked, status, body)
VALUES (:user_id, :key, :made_at, :asked, :status, :body)
ON CONFLICT (@user, key) DO UPDATE
SET made_at = excluded.made_at, asked = excluded.asked, status = excluded.status, body = excluded.body;

-- name: drop_answers
DELETE FROM answers WHERE @user = :user_id AND made_at < :before;

-- Records: the columns for searching are in documents, in PostgreSQL their JSON too

-- name: put_episode
INSERT INTO episodes (
  @owner, doc, task_id, outcome, importance, access_count, last_accessed_at, consolidated, target_key@body
)
VALUES (
  @owned, :doc, :task_id, :outcome, :importance, :access_count, :last_accessed_at,
  @bool(:consolidated), :target_key@new_body
)
ON CONFLICT (@key) DO UPDATE SET
  task_id = excluded.task_id, outcome = excluded.outcome, importance = excluded.importance,
  access_count = excluded.access_count, last_accessed_at = excluded.last_accessed_at,
  consolidated = excluded.consolidated, target_key = excluded.target_key@set_body;

-- name: put_knowledge
INSERT INTO knowledge (@tenant(doc), confidence, access_count, last_accessed_at, updated_at@body)
VALUES (@of_tenant(:doc), :confidence, :access_count, :last_accessed_at, :updated_at@new_body)
ON CONFLICT (@key) DO UPDATE SET
  confidence = excluded.confidence, access_count = excluded.access_count,
  last_accessed_at = excluded.last_accessed_at, updated_at = excluded.updated_at@set_body;

-- name: put_fact
INSERT INTO facts (
  @owner, doc, subject_key, predicate_key, object_key, status, valid_from, valid_to, confidence,
  supersedes, superseded_by, access_count, last_accessed_at@body
)
VALUES (
  @owned, :doc, :subject_key, :predicate_key, :object_key, :status, :valid_from, :valid_to, :confidence,
  :supersedes, :superseded_by, :access_count, :last_accessed_at@new_body
)
ON CONFLICT (@key) DO UPDATE SET
  subject_key = excluded.subject_key, predicate_key = excluded.predicate_key, object_key = excluded.object_key,
  status = excluded.status, valid_from = excluded.valid_from, valid_to = excluded.valid_to,
  confidence = excluded.confidence, supersedes = excluded.supersedes, superseded_by = excluded.superseded_by,
  access_count = excluded.access_count, last_accessed_at = excluded.last_accessed_at@set_body;

-- name: put_item
INSERT INTO items (@owner, doc, path, updated_at, expires_at@body)
VALUES (@owned, :doc, :path, :updated_at, :expires_at@new_body)
ON CONFLICT (@key) DO UPDATE SET
  updated_at = excluded.updated_at, expires_at = excluded.expires_at@set_body;

-- name: drop_sources
DELETE FROM sources WHERE @row;

-- name: add_source
INSERT INTO sources (@owner, source, doc) VALUES (@owned, :source, :doc) ON CONFLICT DO NOTHING;

-- name: add_covered
INSERT INTO covered (@owner, message, entry) VALUES (@owned, :message, :entry) ON CONFLICT DO NOTHING;

-- name: find_episode
SELECT d.doc, d.@user AS user_id, d.agent_id, d.session_id, d.id, d.created_at, @number(d.pinned) AS pinned,
       e.task_id, e.outcome, e.importance, e.access_count, e.last_accessed_at,
       @number(e.consolidated) AS consolidated, @body_of(e)
FROM documents AS d JOIN episodes AS e ON @same(e)
WHERE {where} ORDER BY {by} {order} LIMIT :limit;

-- name: find_knowledge
SELECT d.doc, d.@user AS user_id, d.agent_id, d.session_id, d.id, d.created_at, @number(d.pinned) AS pinned,
       k.confidence, k.access_count, k.last_accessed_at, k.updated_at, @body_of(k)
FROM documents AS d JOIN knowledge AS k ON @same(k)
WHERE {where} ORDER BY {by} {order} LIMIT :limit;

-- name: find_fact
SELECT d.doc, d.@user AS user_id, d.agent_id, d.session_id, d.id, d.created_at, @number(d.pinned) AS pinned,
       f.status, f.valid_from, f.valid_to, f.confidence, f.supersedes, f.superseded_by,
       f.access_count, f.last_accessed_at, @body_of(f)
FROM documents AS d JOIN facts AS f ON @same(f)
WHERE {where} ORDER BY {by} {order} LIMIT :limit;

-- name: find_item
SELECT d.doc, d.@user AS user_id, d.agent_id, d.session_id, d.id, d.created_at, @number(d.pinned) AS pinned,
       i.updated_at, i.expires_at, @body_of(i)
FROM documents AS d JOIN items AS i ON @same(i)
WHERE {where} ORDER BY {by} {order} LIMIT :limit;

-- name: item_paths
SELECT DISTINCT i.path FROM documents AS d JOIN items AS i ON @same(i)
WHERE {where} AND i.path > :after_path ORDER BY i.path LIMIT :limit;

-- name: count_targets
SELECT e.target_key, count(*) FROM documents AS d JOIN episodes AS e ON @same(e)
WHERE {where} GROUP BY e.target_key ORDER BY e.target_key;

-- name: amend_pin
UPDATE documents SET pinned = @bool(:pinned) WHERE @row;

-- name: amend_episode
UPDATE episodes SET
  importance = coalesce(:importance, importance), consolidated = coalesce(@bool(:consolidated), consolidated)
WHERE @row;

-- name: amend_knowledge
UPDATE knowledge SET confidence = coalesce(:confidence, confidence) WHERE @row;

-- name: amend_fact
UPDATE facts SET confidence = coalesce(:confidence, confidence) WHERE @row;

-- name: amend_item
UPDATE items SET expires_at = coalesce(:expires_at, expires_at) WHERE @row;

-- name: find_step
SELECT s.@user AS user_id, t.agent_id, t.session_id, s.task_id, s.seq, s.id, s.status, s.body@crc_of(s)
FROM steps AS s JOIN tasks AS t ON s.@user = :user_id AND t.id = s.task_id
WHERE {where} ORDER BY s.task_id, s.seq {order} LIMIT :limit;

-- name: count_step
SELECT count(*) FROM steps AS s JOIN tasks AS t ON s.@user = :user_id AND t.id = s.task_id WHERE {where};

-- Vectors

-- name: lacking_vectors
SELECT d.doc, d.kind FROM documents AS d WHERE d.@user = :user_id AND d.doc @among(:docs) AND NOT EXISTS (
  SELECT 1 FROM vectors AS v WHERE @same(v) AND v.space = :space
);

-- name: count_without_vectors
SELECT count(*) FROM documents AS d WHERE d.@user = :user_id AND @has_text(d) AND NOT EXISTS (
  SELECT 1 FROM vectors AS v WHERE @same(v) AND v.space = :space
);

-- name: records_without_vectors
SELECT d.doc, d.kind, d.id, d.role FROM documents AS d
WHERE d.@user = :user_id AND @has_text(d) AND d.doc > :after AND NOT EXISTS (
  SELECT 1 FROM vectors AS v WHERE @same(v) AND v.space = :space
)
ORDER BY d.doc LIMIT :limit;

-- name: chroma_allowed
SELECT i.token, i.parts, d.kind, d.id, d.doc FROM documents AS d
@join chroma_items AS i ON i.@user = :user_id AND i.doc = d.doc AND i.space = :space AND i.state = 'held'
WHERE {where} LIMIT :limit;

-- name: chroma_of_ids
SELECT i.token, i.parts, d.kind, d.id, d.doc FROM documents AS d
@join chroma_items AS i ON i.@user = :user_id AND i.doc = d.doc AND i.space = :space AND i.state = 'held'
WHERE d.@user = :user_id AND d.kind = :kind AND d.id @among(:ids);

-- name: chroma_held
-- With each whether its record is marked in vectors.
SELECT i.token, i.parts, EXISTS (
  SELECT 1 FROM vectors AS v WHERE @mine(v)v.doc = i.doc AND v.space = i.space
)
FROM chroma_items AS i
WHERE i.@user = :user_id AND i.token > :after AND i.space = :space AND i.state = 'held'
ORDER BY i.token LIMIT :limit;

-- name: chroma_docs_not_held
-- Records that are marked in vectors and have none in Chroma.
SELECT DISTINCT v.doc FROM vectors AS v WHERE v.@owner = @owned AND v.space = :space AND NOT EXISTS (
  SELECT 1 FROM chroma_items AS i
  WHERE i.@user = :user_id AND i.doc = v.doc AND i.space = v.space AND i.state = 'held'
);

-- name: chroma_drop_unmarked
-- What Chroma has of records that are not marked in vectors.
UPDATE chroma_items SET state = 'going' WHERE @user = :user_id AND state = 'held' AND NOT EXISTS (
  SELECT 1 FROM vectors AS v
  WHERE @mine(v)v.doc = chroma_items.doc AND v.space = chroma_items.space
)
RETURNING token;

-- name: chroma_unmark_not_held
-- Records that are marked in vectors and have none in Chroma.
DELETE FROM vectors WHERE @owner = @owned AND NOT EXISTS (
  SELECT 1 FROM chroma_items AS i
  WHERE i.@user = :user_id AND i.doc = vectors.doc AND i.space = vectors.space AND i.state = 'held'
)
RETURNING doc;

-- name: chroma_unmark
DELETE FROM vectors WHERE @owner = @owned AND space = :space AND doc IN (
  SELECT i.doc FROM chroma_items AS i
  WHERE i.@user = :user_id AND i.token @among(:tokens) AND i.space = :space AND i.state = 'held'
)
RETURNING doc;

-- Readings by a language model

-- name: due_readings
-- every tenant: the users with due sessions are not known before
SELECT s.@user, s.session_id, s.next_seq FROM sessions AS s
LEFT JOIN readings AS r ON r.@user = s.@user AND r.session_id = s.session_id
WHERE s.next_seq > coalesce(r.next_seq, 0) AND coalesce(r.wait_until, 0) <= :now
  AND (s.next_seq - coalesce(r.next_seq, 0) >= :messages OR s.last_active_at <= :rested) {and_where}
ORDER BY coalesce(r.failures, 0), s.last_active_at DESC LIMIT :limit;

-- name: claim_reading
INSERT INTO readings (@user, session_id, next_seq, holder, wait_until, failures)
VALUES (:user_id, :session_id, 0, :holder, :until, 0)
ON CONFLICT (@user, session_id) DO UPDATE SET holder = excluded.holder, wait_until = excluded.wait_until
RETURNING next_seq, failures;

-- name: count_unread
-- every tenant: where no user is named
SELECT coalesce(sum(s.next_seq - coalesce(r.next_seq, 0)), 0) FROM sessions AS s
LEFT JOIN readings AS r ON r.@user = s.@user AND r.session_id = s.session_id WHERE {where};
