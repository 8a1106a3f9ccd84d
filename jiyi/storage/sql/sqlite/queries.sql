-- Statements by name. {where} is replaced by conditions on documents AS d that always
-- begin with the user.

-- name: get_meta
SELECT value FROM meta WHERE name = :name;

-- name: set_meta
INSERT INTO meta (name, value) VALUES (:name, :value)
ON CONFLICT (name) DO UPDATE SET value = excluded.value;

-- name: all_meta
SELECT name, value FROM meta;

-- name: drop_meta
DELETE FROM meta WHERE name = :name;

-- name: add_owner
INSERT INTO owners (user_id) VALUES (:user_id) ON CONFLICT (user_id) DO NOTHING;

-- name: get_owner
SELECT owner, generation FROM owners WHERE user_id = :user_id;

-- name: users
SELECT user_id FROM owners ORDER BY user_id;

-- name: users_after
SELECT user_id FROM owners WHERE user_id > :after ORDER BY user_id LIMIT :limit;

-- name: bump_generation
UPDATE owners SET generation = generation + 1 WHERE user_id = :user_id;

-- name: bump_pin_changes
UPDATE owners SET pin_changes = pin_changes + 1 WHERE user_id = :user_id;

-- name: count_changes
SELECT generation + pin_changes FROM owners WHERE user_id = :user_id;

-- name: bump_every_generation
UPDATE owners SET generation = generation + 1;

-- name: go_on_session
UPDATE sessions SET
  started_at = min(started_at, :first_at), last_active_at = max(last_active_at, :last_at),
  next_seq = next_seq + :count, messages = messages + :count
WHERE user_id = :user_id AND session_id = :session_id
RETURNING next_seq - :count;

-- name: seq_behind_summaries
SELECT coalesce(max(upto_seq) + 1, 0) FROM summaries WHERE user_id = :user_id AND session_id = :session_id;

-- name: begin_session
INSERT INTO sessions (user_id, session_id, started_at, last_active_at, next_seq, messages)
VALUES (:user_id, :session_id, :first_at, :last_at, :next_seq, :count);

-- name: session_extent
SELECT count(*), coalesce(min(created_at), 0), coalesce(max(created_at), 0) FROM documents
WHERE kind = 'message' AND user_id = :user_id AND session_id = :session_id;

-- name: set_session
UPDATE sessions SET messages = :messages, started_at = :started_at, last_active_at = :last_active_at
WHERE user_id = :user_id AND session_id = :session_id;

-- name: drop_session
DELETE FROM sessions WHERE user_id = :user_id AND session_id = :session_id;

-- name: find_session
SELECT user_id, session_id, started_at, last_active_at, messages, next_seq FROM sessions AS s
WHERE {where} ORDER BY last_active_at {order}, session_id {order} LIMIT :limit;

-- name: newest_number
SELECT seq FROM sqlite_sequence WHERE name = 'documents';

-- name: add_document
INSERT INTO documents (doc, user_id, agent_id, session_id, kind, id, role, seq, created_at, pinned, vector_state)
VALUES (:doc, :user_id, :agent_id, :session_id, :kind, :id, :role, :seq, :created_at, :pinned, :vector_state);

-- name: change_document
UPDATE documents SET agent_id = :agent_id, session_id = :session_id, created_at = :created_at, pinned = :pinned
WHERE user_id = :user_id AND kind = :kind AND id = :id
RETURNING doc;

-- name: add_terms
INSERT INTO terms (doc, owner, length, traits, speaker, entry)
VALUES (:doc, (SELECT owner FROM owners WHERE user_id = :user_id), :length, :traits, :speaker, :entry);

-- name: put_message
INSERT INTO messages (doc, body, importance, tokens, tokens_by)
VALUES (:doc, :body, :importance, :tokens, :tokens_by);

-- name: put_episode
INSERT INTO episodes (
  doc, owner, task_id, outcome, importance, access_count, last_accessed_at, consolidated, target_key, body
)
VALUES (
  :doc, (SELECT owner FROM owners WHERE user_id = :user_id), :task_id, :outcome, :importance, :access_count,
  :last_accessed_at, :consolidated, :target_key, :body
)
ON CONFLICT (doc) DO UPDATE SET
  task_id = excluded.task_id, outcome = excluded.outcome, importance = excluded.importance,
  access_count = excluded.access_count, last_accessed_at = excluded.last_accessed_at,
  consolidated = excluded.consolidated, target_key = excluded.target_key, body = excluded.body;

-- name: put_knowledge
INSERT INTO knowledge (doc, confidence, access_count, last_accessed_at, updated_at, body)
VALUES (:doc, :confidence, :access_count, :last_accessed_at, :updated_at, :body)
ON CONFLICT (doc) DO UPDATE SET
  confidence = excluded.confidence, access_count = excluded.access_count,
  last_accessed_at = excluded.last_accessed_at, updated_at = excluded.updated_at, body = excluded.body;

-- name: put_fact
INSERT INTO facts (
  doc, owner, subject_key, predicate_key, object_key, status, valid_from, valid_to, confidence,
  supersedes, superseded_by, access_count, last_accessed_at, body
)
VALUES (
  :doc, (SELECT owner FROM owners WHERE user_id = :user_id), :subject_key, :predicate_key, :object_key, :status,
  :valid_from, :valid_to, :confidence, :supersedes, :superseded_by, :access_count, :last_accessed_at, :body
)
ON CONFLICT (doc) DO UPDATE SET
  subject_key = excluded.subject_key, predicate_key = excluded.predicate_key, object_key = excluded.object_key,
  status = excluded.status, valid_from = excluded.valid_from, valid_to = excluded.valid_to,
  confidence = excluded.confidence, supersedes = excluded.supersedes, superseded_by = excluded.superseded_by,
  access_count = excluded.access_count, last_accessed_at = excluded.last_accessed_at, body = excluded.body;

-- name: drop_sources
DELETE FROM sources WHERE doc = :doc;

-- name: add_source
INSERT INTO sources (owner, source, doc)
VALUES ((SELECT owner FROM owners WHERE user_id = :user_id), :source, :doc)
ON CONFLICT DO NOTHING;

-- name: put_task
INSERT INTO tasks (user_id, id, agent_id, session_id, status, started_at, updated_at, completed_at, body)
VALUES (:user_id, :id, :agent_id, :session_id, :status, :started_at, :updated_at, :completed_at, :body)
ON CONFLICT (user_id, id) DO UPDATE SET
  agent_id = excluded.agent_id, session_id = excluded.session_id, started_at = excluded.started_at,
  status = excluded.status, updated_at = excluded.updated_at,
  completed_at = excluded.completed_at, body = excluded.body;

-- name: next_step
SELECT coalesce(max(seq) + 1, 0) FROM steps WHERE user_id = :user_id AND task_id = :task_id;

-- name: put_step
INSERT INTO steps (user_id, task_id, seq, id, status, body)
VALUES (:user_id, :task_id, :seq, :id, :status, :body)
ON CONFLICT (user_id, id) DO UPDATE SET status = excluded.status, body = excluded.body
WHERE task_id = excluded.task_id
RETURNING seq;

-- name: get_summary_head
SELECT id, version, upto_seq FROM summaries
WHERE user_id = :user_id AND session_id = :session_id AND agent_id = coalesce(:agent_id, '')
ORDER BY version DESC LIMIT 1;

-- name: add_summary
INSERT INTO summaries (user_id, session_id, agent_id, version, id, upto_seq, created_at, body)
VALUES (:user_id, :session_id, coalesce(:agent_id, ''), :version, :id, :upto_seq, :created_at, :body)
RETURNING entry;

-- name: add_covered
INSERT INTO covered (owner, message, entry)
VALUES ((SELECT owner FROM owners WHERE user_id = :user_id), :message, :entry)
ON CONFLICT DO NOTHING;

-- name: go_on_behind_summary
UPDATE sessions SET next_seq = max(next_seq, :upto_seq + 1)
WHERE user_id = :user_id AND session_id = :session_id;

-- name: drop_summaries_without
-- Those of a session, of all and of the message's agent, that speak of its place but never took it in.
DELETE FROM summaries
WHERE user_id = :user_id AND session_id = :session_id AND agent_id IN ('', coalesce(:agent_id, ''))
  AND upto_seq >= :seq AND NOT EXISTS (
    SELECT 1 FROM covered AS c JOIN summaries AS other USING (entry)
    WHERE c.owner = (SELECT owner FROM owners WHERE user_id = :user_id) AND c.message = :id
      AND other.session_id = :session_id AND other.agent_id = summaries.agent_id
  );

-- name: find_message
SELECT d.doc, d.user_id, d.agent_id, d.session_id, d.id, d.seq, d.created_at, d.pinned,
       m.body, m.importance, m.tokens, m.tokens_by
FROM documents AS d JOIN messages AS m USING (doc)
WHERE {where} ORDER BY {by} {order} LIMIT :limit;

-- name: find_episode
SELECT d.doc, d.user_id, d.agent_id, d.session_id, d.id, d.created_at, d.pinned,
       e.task_id, e.outcome, e.importance, e.access_count, e.last_accessed_at, e.consolidated, e.body
FROM documents AS d JOIN episodes AS e USING (doc)
WHERE {where} ORDER BY {by} {order} LIMIT :limit;

-- name: find_knowledge
SELECT d.doc, d.user_id, d.agent_id, d.session_id, d.id, d.created_at, d.pinned,
       k.confidence, k.access_count, k.last_accessed_at, k.updated_at, k.body
FROM documents AS d JOIN knowledge AS k USING (doc)
WHERE {where} ORDER BY {by} {order} LIMIT :limit;

-- name: find_fact
SELECT d.doc, d.user_id, d.agent_id, d.session_id, d.id, d.created_at, d.pinned,
       f.status, f.valid_from, f.valid_to, f.confidence, f.supersedes, f.superseded_by,
       f.access_count, f.last_accessed_at, f.body
FROM documents AS d JOIN facts AS f USING (doc)
WHERE {where} ORDER BY {by} {order} LIMIT :limit;

-- name: find_task
SELECT user_id, agent_id, session_id, id, status, started_at, updated_at, completed_at, body
FROM tasks AS t WHERE {where} ORDER BY started_at {order}, id {order} LIMIT :limit;

-- name: find_step
SELECT s.user_id, t.agent_id, t.session_id, s.task_id, s.seq, s.id, s.status, s.body
FROM steps AS s JOIN tasks AS t ON t.user_id = s.user_id AND t.id = s.task_id
WHERE {where} ORDER BY s.task_id, s.seq {order} LIMIT :limit;

-- name: find_summary
SELECT s.entry, s.user_id, nullif(s.agent_id, '') AS agent_id, s.session_id, s.id, s.version, s.upto_seq,
       s.created_at, s.body
FROM summaries AS s WHERE {where} ORDER BY {by} {order} LIMIT :limit;

-- name: document_ids
SELECT doc FROM documents AS d WHERE {where};

-- name: has_task
SELECT 1 FROM tasks WHERE user_id = :user_id AND id = :task_id;

-- name: count_step
SELECT count(*) FROM steps AS s JOIN tasks AS t ON t.user_id = s.user_id AND t.id = s.task_id WHERE {where};

-- name: delete_document
DELETE FROM documents WHERE user_id = :user_id AND kind = :kind AND id = :id RETURNING doc;

-- name: delete_task
DELETE FROM tasks WHERE user_id = :user_id AND id = :id;

-- name: delete_summary
DELETE FROM summaries WHERE user_id = :user_id AND id = :id;

-- name: delete_documents
DELETE FROM documents
WHERE user_id = :user_id AND kind = :kind AND id IN (SELECT value FROM json_each(:ids));

-- name: delete_tasks
DELETE FROM tasks WHERE user_id = :user_id AND id IN (SELECT value FROM json_each(:ids));

-- name: count_documents
SELECT d.kind, count(*), count(*) FILTER (WHERE d.vector_state = 'pending') FROM documents AS d WHERE {where} GROUP BY d.kind;

-- name: count_task
SELECT count(*) FROM tasks AS t WHERE {where};

-- name: count_session
SELECT count(*) FROM sessions AS s WHERE {where};

-- name: count_summary
SELECT count(*) FROM summaries AS s WHERE {where};

-- name: first_pending
-- A lease that ends much later than one taken now was taken by a clock far ahead: it holds nothing.
-- One below zero sets the record apart.
SELECT user_id, doc FROM documents
WHERE vector_state = 'pending' AND lease_until >= 0 AND (lease_until <= :now OR lease_until > 2 * :until - :now)
ORDER BY doc LIMIT :limit;

-- name: pending_of
SELECT doc FROM documents
WHERE user_id = :user_id AND vector_state = 'pending' AND lease_until >= 0 AND (lease_until <= :now OR lease_until > 2 * :until - :now)
ORDER BY doc LIMIT :limit;

-- name: lease_pending
UPDATE documents SET lease_until = :until
WHERE user_id = :user_id AND doc IN (SELECT value FROM json_each(:docs))
  AND vector_state = 'pending' AND lease_until >= 0 AND (lease_until <= :now OR lease_until > 2 * :until - :now)
RETURNING doc, kind, id, role;

-- name: count_pending
SELECT count(*) FROM documents WHERE vector_state = 'pending';

-- name: set_apart
UPDATE documents SET lease_until = :lease
WHERE doc = :doc AND user_id = :user_id AND vector_state = 'pending';

-- name: count_apart
SELECT -lease_until, count(*) FROM documents WHERE vector_state = 'pending' AND lease_until < 0 GROUP BY 1;

-- name: apart_of
SELECT -lease_until, count(*) FROM documents
WHERE vector_state = 'pending' AND lease_until < 0 AND user_id = :user_id GROUP BY 1;

-- name: take_up
UPDATE documents SET lease_until = 0
WHERE user_id = :user_id AND vector_state = 'pending' AND lease_until < 0
RETURNING doc;

-- name: settle
UPDATE documents SET vector_state = :state, lease_until = 0
WHERE doc = :doc AND user_id = :user_id AND vector_state = 'pending'
RETURNING kind;

-- name: add_vector
INSERT INTO vectors (doc, owner, space, vector)
VALUES (:doc, (SELECT owner FROM owners WHERE user_id = :user_id), :space, :vector);

-- name: lacks_vectors
SELECT 1 FROM documents AS d WHERE d.doc = :doc AND d.user_id = :user_id
  AND NOT EXISTS (SELECT 1 FROM vectors AS v WHERE v.doc = d.doc AND v.space = :space);

-- name: texts_without
SELECT d.doc, d.user_id, d.kind, d.id, d.role FROM documents AS d
WHERE d.user_id = :user_id AND d.vector_state != 'none' AND d.doc > :after
  AND NOT EXISTS (SELECT 1 FROM vectors AS v WHERE v.doc = d.doc AND v.space = :space)
ORDER BY d.doc LIMIT :limit;

-- name: count_without
SELECT count(*) FROM documents AS d WHERE d.user_id = :user_id AND d.vector_state != 'none'
  AND NOT EXISTS (SELECT 1 FROM vectors AS v WHERE v.doc = d.doc AND v.space = :space);

-- name: mark_ready
-- Nothing waits that has vectors of the set that is searched now.
UPDATE documents SET vector_state = 'ready', lease_until = 0
WHERE user_id = :user_id AND vector_state = 'pending'
  AND EXISTS (SELECT 1 FROM vectors AS v WHERE v.doc = documents.doc AND v.space = :space);

-- name: mark_pending
-- Everything waits that has a text and no vectors of the set that is searched now.
UPDATE documents SET vector_state = 'pending', lease_until = 0
WHERE user_id = :user_id AND vector_state = 'ready'
  AND NOT EXISTS (SELECT 1 FROM vectors AS v WHERE v.doc = documents.doc AND v.space = :space);

-- name: drop_space
DELETE FROM vectors WHERE part IN (
  SELECT part FROM vectors
  WHERE owner = (SELECT owner FROM owners WHERE user_id = :user_id) AND space = :space LIMIT :limit
)
RETURNING 1;

-- name: count_vectors
SELECT count(*) FROM vectors WHERE owner = :owner AND space = :space;

-- name: read_vectors
SELECT part, doc, vector FROM vectors
WHERE owner = :owner AND space = :space AND part > :after ORDER BY part LIMIT :limit;

-- name: read_exactly
SELECT doc, vector FROM vectors
WHERE doc IN (SELECT value FROM json_each(:docs)) AND space = :space ORDER BY doc, part;

-- name: read_parts
SELECT part, vector FROM vectors WHERE part IN (SELECT value FROM json_each(:parts));

-- name: words_of
SELECT d.id, t.length, t.traits, t.entry FROM documents AS d JOIN terms AS t USING (doc)
WHERE d.doc IN (SELECT value FROM json_each(:docs)) AND d.user_id = :user_id;

-- name: read_terms
SELECT d.doc, d.kind, d.id, d.role, d.session_id, d.agent_id, d.seq, d.created_at,
       t.length, t.traits, t.speaker, t.entry
FROM terms AS t CROSS JOIN documents AS d USING (doc)
WHERE t.owner = (SELECT o.owner FROM owners AS o WHERE o.user_id = :user_id)
  AND t.doc > :after AND +d.user_id = :user_id ORDER BY t.doc LIMIT :limit;

-- name: count_targets
SELECT e.target_key, count(*) FROM documents AS d JOIN episodes AS e USING (doc)
WHERE {where} GROUP BY e.target_key HAVING count(*) >= :at_least ORDER BY e.target_key;

-- name: docs_of
SELECT id, doc FROM documents
WHERE user_id = :user_id AND kind = :kind AND id IN (SELECT value FROM json_each(:ids));

-- name: amend_pin
UPDATE documents SET pinned = :pinned WHERE doc = :doc;

-- name: amend_message
UPDATE messages SET importance = coalesce(:importance, importance) WHERE doc = :doc;

-- name: amend_episode
UPDATE episodes SET importance = coalesce(:importance, importance), consolidated = coalesce(:consolidated, consolidated)
WHERE doc = :doc;

-- name: amend_knowledge
UPDATE knowledge SET confidence = coalesce(:confidence, confidence) WHERE doc = :doc;

-- name: amend_fact
UPDATE facts SET confidence = coalesce(:confidence, confidence) WHERE doc = :doc;

-- name: put_trash
INSERT INTO trash (user_id, kind, id, doc, agent_id, session_id, discarded_at, reason, body)
VALUES (
  :user_id, :kind, :id, :doc, :agent_id, :session_id, :discarded_at, :reason, :body
)
ON CONFLICT (user_id, kind, id) DO UPDATE SET
  doc = excluded.doc, agent_id = excluded.agent_id, session_id = excluded.session_id,
  discarded_at = excluded.discarded_at, reason = excluded.reason, body = excluded.body;

-- name: find_trash
SELECT kind, discarded_at, reason, body FROM trash AS t
WHERE {where} ORDER BY discarded_at DESC, kind, id LIMIT :limit;

-- name: walk_trash
SELECT t.entry, kind, discarded_at, reason, body FROM trash AS t
WHERE {where} AND t.entry > :after ORDER BY t.entry LIMIT :limit;

-- name: take_trash
DELETE FROM trash
WHERE user_id = :user_id AND kind = :kind AND id IN (SELECT value FROM json_each(:ids))
RETURNING id, body, doc;

-- name: users_with_trash
SELECT DISTINCT +user_id FROM trash WHERE discarded_at < :before LIMIT :limit;

-- name: erase_trash
DELETE FROM trash WHERE entry IN (SELECT t.entry FROM trash AS t WHERE {where} LIMIT :limit) RETURNING 1;

-- name: next_place
SELECT next_seq FROM sessions WHERE user_id = :user_id AND session_id = :session_id;

-- name: return_to_session
UPDATE sessions SET
  started_at = min(started_at, :first_at), last_active_at = max(last_active_at, :last_at),
  next_seq = max(next_seq, :next_seq), messages = messages + :count
WHERE user_id = :user_id AND session_id = :session_id;

-- name: taken_places
SELECT seq FROM documents
WHERE user_id = :user_id AND kind = 'message' AND session_id = :session_id AND seq IN (SELECT value FROM json_each(:places));

-- name: fill_owner_of_episodes
UPDATE episodes SET owner = (
  SELECT o.owner FROM documents AS d JOIN owners AS o USING (user_id) WHERE d.doc = episodes.doc
);

-- name: fill_target
UPDATE episodes SET target_key = :target_key WHERE doc = :doc;

-- name: fill_traits
UPDATE terms SET traits = :traits WHERE doc = :doc;

-- name: fill_sources
INSERT INTO sources (owner, source, doc)
SELECT o.owner, j.value, k.doc
FROM knowledge AS k JOIN documents AS d USING (doc) JOIN owners AS o USING (user_id),
     json_each(k.body, '$.source_episodes') AS j
WHERE j.type = 'text' ON CONFLICT DO NOTHING;

-- name: rows_without_terms
SELECT count(*) FROM documents WHERE doc NOT IN (SELECT doc FROM terms);

-- name: terms_without_rows
SELECT count(*) FROM terms AS t
WHERE NOT EXISTS (
  SELECT 1 FROM documents AS d JOIN owners AS o USING (user_id) WHERE d.doc = t.doc AND o.owner = t.owner
);

-- name: wrong_vector_states
-- While a switch to another set is being completed, states still follow the set that was searched before.
SELECT count(*) FROM documents WHERE (vector_state = 'ready') != (doc IN (
    SELECT doc FROM vectors
    WHERE space = coalesce((SELECT CAST(value AS INTEGER) FROM meta WHERE name = 'embedder_space'), 0)
  ))
  AND coalesce((SELECT value FROM meta WHERE name = 'next_embedder_space'), '') !=
      coalesce((SELECT value FROM meta WHERE name = 'embedder_space'), '0');

-- name: covered_messages_without_summary
SELECT count(*) FROM covered WHERE entry NOT IN (SELECT entry FROM summaries);

-- name: summaries_without_user
SELECT count(*) FROM summaries WHERE user_id NOT IN (SELECT user_id FROM owners);

-- name: totals
SELECT (SELECT count(*) FROM owners), count(*), coalesce(sum(vector_state = 'pending'), 0),
       (SELECT count(*) FROM summaries)
FROM documents;

-- Vectors in Chroma

-- name: chroma_prepare
-- However a record loses its vectors, the other index is told by whoever looks next.
CREATE TRIGGER IF NOT EXISTS chroma_gone AFTER DELETE ON vectors BEGIN
  UPDATE chroma_items SET state = 'going' WHERE doc = old.doc AND space = old.space AND state = 'held';
END;

-- name: chroma_leave
DROP TRIGGER IF EXISTS chroma_gone;

-- name: any_vectors
SELECT 1 FROM vectors LIMIT 1;

-- name: chroma_begin
INSERT INTO chroma_items (user_id, token, doc, space, parts, state, lease_until)
VALUES (:user_id, :token, :doc, :space, :parts, 'adding', :until);

-- name: chroma_hold
UPDATE chroma_items SET state = 'held' WHERE user_id = :user_id AND token = :token AND state = 'adding'
RETURNING token;

-- name: chroma_mark
INSERT INTO vectors (doc, owner, space, vector)
VALUES (:doc, (SELECT owner FROM owners WHERE user_id = :user_id), :space, x'');

-- name: chroma_let_go
UPDATE chroma_items SET state = 'going'
WHERE user_id = :user_id AND token IN (SELECT value FROM json_each(:tokens));

-- name: chroma_to_go
SELECT user_id, space, token, parts FROM chroma_items WHERE state = 'going'
UNION ALL
SELECT user_id, space, token, parts FROM chroma_items WHERE state = 'adding' AND lease_until <= :now
LIMIT :limit;

-- name: chroma_expire
UPDATE chroma_items SET state = 'going'
WHERE user_id = :user_id AND token IN (SELECT value FROM json_each(:tokens))
  AND state = 'adding' AND lease_until <= :now;

-- name: chroma_going
SELECT token, space, parts FROM chroma_items
WHERE user_id = :user_id AND token IN (SELECT value FROM json_each(:tokens)) AND state = 'going';

-- name: chroma_gone
DELETE FROM chroma_items
WHERE user_id = :user_id AND token IN (SELECT value FROM json_each(:tokens)) AND state = 'going';

-- name: chroma_allowed
SELECT i.token, i.parts, d.kind, d.id, d.doc FROM documents AS d
CROSS JOIN chroma_items AS i ON i.user_id = :user_id AND i.doc = d.doc AND i.space = :space AND i.state = 'held'
WHERE {where} LIMIT :limit;

-- name: chroma_among
SELECT i.token, d.kind, d.id, d.doc FROM chroma_items AS i
CROSS JOIN documents AS d ON d.doc = i.doc
WHERE i.user_id = :user_id AND i.token IN (SELECT value FROM json_each(:tokens))
  AND i.space = :space AND i.state = 'held' AND {where};

-- name: chroma_held
-- Whether the rows say so too: 1 or 0.
SELECT i.token, i.parts, EXISTS (SELECT 1 FROM vectors AS v WHERE v.doc = i.doc AND v.space = i.space)
FROM chroma_items AS i
WHERE i.user_id = :user_id AND i.token > :after AND i.space = :space AND i.state = 'held'
ORDER BY i.token LIMIT :limit;

-- name: chroma_unheld
-- Records that have vectors by the rows and none that are held.
SELECT DISTINCT v.doc FROM vectors AS v
WHERE v.owner = (SELECT owner FROM owners WHERE user_id = :user_id) AND v.space = :space AND NOT EXISTS (
  SELECT 1 FROM chroma_items AS i WHERE i.doc = v.doc AND i.space = v.space AND i.state = 'held'
);

-- name: chroma_known
SELECT token FROM chroma_items WHERE user_id = :user_id AND token IN (SELECT value FROM json_each(:tokens));

-- name: chroma_without_mark
-- What is held of records that have no vectors by the rows.
UPDATE chroma_items SET state = 'going' WHERE user_id = :user_id AND state = 'held' AND NOT EXISTS (
  SELECT 1 FROM vectors AS v WHERE v.doc = chroma_items.doc AND v.space = chroma_items.space
)
RETURNING token;

-- name: chroma_mark_without
-- Records that have vectors by the rows and none that are held.
DELETE FROM vectors WHERE owner = (SELECT owner FROM owners WHERE user_id = :user_id) AND NOT EXISTS (
  SELECT 1 FROM chroma_items AS i WHERE i.doc = vectors.doc AND i.space = vectors.space AND i.state = 'held'
)
RETURNING doc;

-- name: chroma_unmark
DELETE FROM vectors WHERE space = :space AND doc IN (
  SELECT i.doc FROM chroma_items AS i
  WHERE i.user_id = :user_id AND i.token IN (SELECT value FROM json_each(:tokens))
    AND i.space = :space AND i.state = 'held'
)
RETURNING doc;

-- name: chroma_forget_space
DELETE FROM chroma_items WHERE user_id = :user_id AND space = :space;

-- name: chroma_of
SELECT i.token, i.parts, d.kind, d.id, d.doc FROM documents AS d
CROSS JOIN chroma_items AS i ON i.user_id = :user_id AND i.doc = d.doc AND i.space = :space AND i.state = 'held'
WHERE d.user_id = :user_id AND d.kind = :kind AND d.id IN (SELECT value FROM json_each(:ids));

-- name: chroma_lacking
SELECT d.doc, d.kind FROM documents AS d
WHERE d.user_id = :user_id AND d.doc IN (SELECT value FROM json_each(:docs))
  AND NOT EXISTS (SELECT 1 FROM vectors AS v WHERE v.doc = d.doc AND v.space = :space);

-- name: chroma_known_to_any
SELECT token FROM chroma_items WHERE token IN (SELECT value FROM json_each(:tokens));

-- name: chroma_in_use
SELECT 1 FROM chroma_items WHERE space = :space AND state != 'going' AND token NOT IN (SELECT value FROM json_each(:tokens)) LIMIT 1;

-- name: due_readings
-- Sessions with so many unread messages or at rest: those that failed last, those last spoken in first.
SELECT s.user_id, s.session_id, s.next_seq FROM sessions AS s LEFT JOIN readings AS r USING (user_id, session_id)
WHERE s.next_seq > coalesce(r.next_seq, 0) AND coalesce(r.wait_until, 0) <= :now
  AND (s.next_seq - coalesce(r.next_seq, 0) >= :messages OR s.last_active_at <= :rested) {and_where}
ORDER BY coalesce(r.failures, 0), s.last_active_at DESC LIMIT :limit;

-- name: claim_reading
INSERT INTO readings (user_id, session_id, next_seq, holder, wait_until, failures)
VALUES (:user_id, :session_id, 0, :holder, :until, 0)
ON CONFLICT (user_id, session_id) DO UPDATE SET holder = excluded.holder, wait_until = excluded.wait_until
RETURNING next_seq, failures;

-- name: end_reading
UPDATE readings SET next_seq = max(next_seq, :next_seq), holder = '', wait_until = :until, failures = :failures
WHERE user_id = :user_id AND session_id = :session_id AND holder = :holder
RETURNING next_seq;

-- name: count_unread
SELECT coalesce(sum(s.next_seq - coalesce(r.next_seq, 0)), 0)
FROM sessions AS s LEFT JOIN readings AS r USING (user_id, session_id) WHERE {where};

-- name: add_to_meta
INSERT INTO meta (name, value) VALUES (:name, :by)
ON CONFLICT (name) DO UPDATE SET value = CAST(CAST(meta.value AS INTEGER) + :by AS TEXT)
RETURNING CAST(value AS INTEGER);

-- name: drop_older_meta
DELETE FROM meta WHERE substr(name, 1, length(:prefix)) = :prefix AND name < :name;
