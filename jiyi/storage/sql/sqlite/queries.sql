-- Statements by name. {where} is replaced by conditions on documents AS d that always
-- begin with the user.

-- name: get_meta
SELECT value FROM meta WHERE name = :name;

-- name: set_meta
INSERT INTO meta (name, value) VALUES (:name, :value)
ON CONFLICT (name) DO UPDATE SET value = excluded.value;

-- name: add_owner
INSERT INTO owners (user_id) VALUES (:user_id) ON CONFLICT (user_id) DO NOTHING;

-- name: get_owner
SELECT owner, generation FROM owners WHERE user_id = :user_id;

-- name: users
SELECT user_id FROM owners ORDER BY user_id;

-- name: bump_generation
UPDATE owners SET generation = generation + 1 WHERE user_id = :user_id;

-- name: bump_pin_changes
UPDATE owners SET pin_changes = pin_changes + 1 WHERE user_id = :user_id;

-- name: count_changes
SELECT generation + pin_changes FROM owners WHERE user_id = :user_id;

-- name: bump_every_generation
UPDATE owners SET generation = generation + 1;

-- name: enter_session
-- A session whose messages are all gone may still have a summary: it goes on behind the places of that.
INSERT INTO sessions (user_id, session_id, started_at, last_active_at, next_seq, messages)
VALUES (:user_id, :session_id, :created_at, :created_at, 1 + CASE
  WHEN EXISTS (SELECT 1 FROM sessions WHERE user_id = :user_id AND session_id = :session_id) THEN 0
  ELSE coalesce((SELECT max(upto_seq) + 1 FROM summaries WHERE user_id = :user_id AND session_id = :session_id), 0)
END, 1)
ON CONFLICT (user_id, session_id) DO UPDATE SET
  started_at = min(started_at, excluded.started_at),
  last_active_at = max(last_active_at, excluded.last_active_at),
  next_seq = next_seq + 1,
  messages = messages + 1
RETURNING next_seq - 1;

-- name: recount_session
UPDATE sessions SET (started_at, last_active_at, messages) = (
  SELECT coalesce(min(created_at), 0), coalesce(max(created_at), 0), count(*) FROM documents AS d
  WHERE d.kind = 'message' AND d.user_id = :user_id AND d.session_id = :session_id
)
WHERE user_id = :user_id AND session_id = :session_id;

-- name: drop_empty_session
DELETE FROM sessions WHERE user_id = :user_id AND session_id = :session_id AND messages = 0;

-- name: find_session
SELECT user_id, session_id, started_at, last_active_at, messages FROM sessions AS s
WHERE {where} ORDER BY last_active_at {order}, session_id {order} LIMIT :limit;

-- name: add_document
INSERT INTO documents (doc, user_id, agent_id, session_id, kind, id, role, seq, created_at, pinned, vector_state)
VALUES (:doc, :user_id, :agent_id, :session_id, :kind, :id, :role, :seq, :created_at, :pinned, :vector_state)
RETURNING doc;

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

-- name: put_step
INSERT INTO steps (user_id, task_id, seq, id, status, body)
VALUES (
  :user_id, :task_id,
  (SELECT coalesce(max(seq) + 1, 0) FROM steps WHERE user_id = :user_id AND task_id = :task_id),
  :id, :status, :body
)
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
SELECT (SELECT owner FROM owners WHERE user_id = :user_id), j.value, :entry FROM json_each(:covers) AS j
WHERE true ON CONFLICT DO NOTHING;

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
SELECT d.kind, count(*), sum(d.vector_state = 'pending') FROM documents AS d WHERE {where} GROUP BY d.kind;

-- name: count_task
SELECT count(*) FROM tasks AS t WHERE {where};

-- name: count_session
SELECT count(*) FROM sessions AS s WHERE {where};

-- name: count_summary
SELECT count(*) FROM summaries AS s WHERE {where};

-- name: lease_pending
UPDATE documents SET lease_until = :until
WHERE doc IN (
  SELECT doc FROM documents WHERE vector_state = 'pending' AND lease_until <= :now ORDER BY doc LIMIT :limit
)
RETURNING doc, user_id, kind, id, role;

-- name: any_pending
SELECT 1 FROM documents WHERE vector_state = 'pending' AND lease_until <= :now LIMIT 1;

-- name: count_pending
SELECT count(*) FROM documents WHERE vector_state = 'pending';

-- name: settle
UPDATE documents SET vector_state = :state, lease_until = 0 WHERE doc = :doc AND vector_state = 'pending'
RETURNING user_id;

-- name: add_vector
INSERT INTO vectors (doc, owner, vector) VALUES (:doc, :owner, :vector);

-- name: drop_every_vector
DELETE FROM vectors;

-- name: all_pending
UPDATE documents SET vector_state = 'pending', lease_until = 0 WHERE vector_state = 'ready';

-- name: count_vectors
SELECT count(*) FROM vectors WHERE owner = :owner;

-- name: read_vectors
SELECT part, doc, vector FROM vectors WHERE owner = :owner AND part > :after ORDER BY part LIMIT :limit;

-- name: read_parts
SELECT part, vector FROM vectors WHERE part IN (SELECT value FROM json_each(:parts));

-- name: read_terms
SELECT d.doc, d.kind, d.id, d.role, d.session_id, d.agent_id, d.seq, d.created_at,
       t.length, t.traits, t.speaker, t.entry
FROM terms AS t CROSS JOIN documents AS d USING (doc)
WHERE t.owner = :owner AND t.doc > :after AND +d.user_id = :user_id ORDER BY t.doc LIMIT :limit;

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
  :user_id, :kind, :id, (SELECT doc FROM documents WHERE user_id = :user_id AND kind = :kind AND id = :id),
  :agent_id, :session_id, :discarded_at, :reason, :body
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
DELETE FROM trash WHERE user_id = :user_id AND kind = :kind AND id = :id RETURNING body, doc;

-- name: erase_trash
DELETE FROM trash WHERE entry IN (SELECT t.entry FROM trash AS t WHERE {where} LIMIT :limit) RETURNING 1;

-- name: return_to_session
INSERT INTO sessions (user_id, session_id, started_at, last_active_at, next_seq, messages)
VALUES (:user_id, :session_id, :created_at, :created_at, 1 + max(:seq, CASE
  WHEN EXISTS (SELECT 1 FROM sessions WHERE user_id = :user_id AND session_id = :session_id) THEN 0
  ELSE coalesce((SELECT max(upto_seq) FROM summaries WHERE user_id = :user_id AND session_id = :session_id), 0)
END), 1)
ON CONFLICT (user_id, session_id) DO UPDATE SET
  started_at = min(started_at, excluded.started_at),
  last_active_at = max(last_active_at, excluded.last_active_at),
  next_seq = max(next_seq, excluded.next_seq),
  messages = messages + 1;

-- name: place_taken
SELECT 1 FROM documents WHERE kind = 'message' AND user_id = :user_id AND session_id = :session_id AND seq = :seq;

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
SELECT count(*) FROM documents WHERE (vector_state = 'ready') != (doc IN (SELECT doc FROM vectors));

-- name: covered_messages_without_summary
SELECT count(*) FROM covered WHERE entry NOT IN (SELECT entry FROM summaries);

-- name: summaries_without_user
SELECT count(*) FROM summaries WHERE user_id NOT IN (SELECT user_id FROM owners);

-- name: totals
SELECT (SELECT count(*) FROM owners), count(*), coalesce(sum(vector_state = 'pending'), 0),
       (SELECT count(*) FROM summaries)
FROM documents;
