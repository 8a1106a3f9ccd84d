-- Statements that are the same for every database, by name; each database has a file of its own for the others.
-- What they spell differently is written as
--   @user            the column that holds a row's user
--   @among(:values)  the value is one of a list, given as a parameter
--   @least, @greatest  of two values
-- Every statement names the user on every table, or says in its first line why it looks at all of them
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

-- name: go_on_session
UPDATE sessions SET
  started_at = @least(started_at, :first_at), last_active_at = @greatest(last_active_at, :last_at),
  next_seq = next_seq + :count, messages = messages + :count
WHERE @user = :user_id AND session_id = :session_id
RETURNING next_seq - :count;

-- name: seq_behind_summaries
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

-- name: docs_of
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
SELECT coalesce(max(seq) + 1, 0) FROM steps WHERE @user = :user_id AND task_id = :task_id;

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

-- name: delete_task
DELETE FROM tasks WHERE @user = :user_id AND id = :id;

-- name: delete_tasks
DELETE FROM tasks WHERE @user = :user_id AND id @among(:ids);

-- name: get_summary_head
SELECT id, version, upto_seq FROM summaries
WHERE @user = :user_id AND session_id = :session_id AND agent_id = coalesce(:agent_id, '')
ORDER BY version DESC LIMIT 1;

-- name: go_on_behind_summary
UPDATE sessions SET next_seq = @greatest(next_seq, :upto_seq + 1)
WHERE @user = :user_id AND session_id = :session_id;

-- name: find_summary
SELECT s.entry, s.@user AS user_id, nullif(s.agent_id, '') AS agent_id, s.session_id, s.id, s.version,
       s.upto_seq, s.created_at, s.body@crc
FROM summaries AS s WHERE {where} ORDER BY {by} {order} LIMIT :limit;

-- name: count_summary
SELECT count(*) FROM summaries AS s WHERE {where};

-- name: delete_summary
DELETE FROM summaries WHERE @user = :user_id AND id = :id;

-- name: find_trash
SELECT t.entry, t.@user AS user_id, t.agent_id, t.session_id, t.kind, t.id, t.discarded_at, t.reason, t.body@crc
FROM trash AS t WHERE {where} ORDER BY {by} LIMIT :limit;

-- name: take_trash
DELETE FROM trash WHERE @user = :user_id AND kind = :kind AND id @among(:ids)
RETURNING @user AS user_id, agent_id, session_id, kind, id, discarded_at, reason, body, doc@crc;

-- name: delete_numbered
DELETE FROM documents WHERE @user = :user_id AND doc @among(:docs);

-- name: get_meta
-- every tenant: a table of the whole database
SELECT value FROM meta WHERE name = :name;

-- name: all_meta
-- every tenant: a table of the whole database
SELECT name, value FROM meta;

-- name: find_meta
-- every tenant: a table of the whole database
SELECT value FROM meta WHERE name = :name;

-- name: set_meta
-- every tenant: a table of the whole database
INSERT INTO meta (name, value) VALUES (:name, :value)
ON CONFLICT (name) DO UPDATE SET value = excluded.value;

-- name: drop_meta
-- every tenant: a table of the whole database
DELETE FROM meta WHERE name = :name;

-- name: any_vectors
-- every tenant: looks at the whole database
SELECT 1 FROM vectors LIMIT 1;

-- name: chroma_begin
INSERT INTO chroma_items (@user, token, doc, space, parts, state, lease_until)
VALUES (:user_id, :token, :doc, :space, :parts, 'adding', :until);

-- name: chroma_hold
UPDATE chroma_items SET state = 'held' WHERE @user = :user_id AND token @among(:tokens) AND state = 'adding'
RETURNING token;

-- name: chroma_let_go
UPDATE chroma_items SET state = 'going' WHERE @user = :user_id AND token @among(:tokens);

-- name: chroma_to_go
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

-- name: chroma_gone
DELETE FROM chroma_items WHERE @user = :user_id AND token @among(:tokens) AND state = 'going';

-- name: chroma_known
SELECT token FROM chroma_items WHERE @user = :user_id AND token @among(:tokens);

-- name: chroma_forget_space
DELETE FROM chroma_items WHERE @user = :user_id AND space = :space;

-- name: chroma_forget_all
DELETE FROM chroma_items WHERE @user = :user_id;

-- name: chroma_known_to_any
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
