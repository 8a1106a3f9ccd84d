-- Statements in SQLite's dialect. {where} is replaced by conditions that begin with the user.

-- name: get_owner
SELECT owner, generation, generation + pin_changes FROM owners WHERE user_id = :user_id;

-- name: bump_every_generation
UPDATE owners SET generation = generation + 1;

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
INSERT INTO messages (doc, body, importance, tokens, tokens_by, crc)
VALUES (:doc, :body, :importance, :tokens, :tokens_by, :crc);

-- name: add_summary
INSERT INTO summaries (user_id, session_id, agent_id, version, id, upto_seq, created_at, body, crc)
VALUES (:user_id, :session_id, coalesce(:agent_id, ''), :version, :id, :upto_seq, :created_at, :body, :crc)
RETURNING entry;

-- name: drop_summaries_without
-- Those of the session, of all and of the message's agent, that span its place but do not cover it.
DELETE FROM summaries
WHERE user_id = :user_id AND session_id = :session_id AND agent_id IN ('', coalesce(:agent_id, ''))
  AND upto_seq >= :seq AND NOT EXISTS (
    SELECT 1 FROM covered AS c JOIN summaries AS other USING (entry)
    WHERE c.owner = (SELECT owner FROM owners WHERE user_id = :user_id) AND c.message = :id
      AND other.session_id = :session_id AND other.agent_id = summaries.agent_id
  );

-- name: find_message
SELECT d.doc, d.user_id, d.agent_id, d.session_id, d.id, d.seq, d.created_at, d.pinned,
       m.body, m.importance, m.tokens, m.tokens_by, m.crc
FROM documents AS d JOIN messages AS m USING (doc)
WHERE {where} ORDER BY {by} {order} LIMIT :limit;

-- name: count_documents
SELECT d.kind, count(*), count(*) FILTER (WHERE d.vector_state = 'pending') FROM documents AS d WHERE {where} GROUP BY d.kind;

-- name: first_pending
-- A lease that ends much later than one taken now was taken with a wrong clock and is ignored.
-- A negative one sets the record aside.
SELECT user_id, doc FROM documents
WHERE vector_state = 'pending' AND lease_until >= 0 AND (lease_until <= :now OR lease_until > 2 * :until - :now)
ORDER BY doc LIMIT :limit;

-- name: lease_pending
UPDATE documents SET lease_until = :until
WHERE user_id = :user_id AND doc IN (SELECT value FROM json_each(:docs))
  AND vector_state = 'pending' AND lease_until >= 0 AND (lease_until <= :now OR lease_until > 2 * :until - :now)
RETURNING doc, kind, id, role;

-- name: count_pending
SELECT count(*) FROM documents WHERE vector_state = 'pending';

-- name: set_aside
UPDATE documents SET lease_until = :lease
WHERE doc = :doc AND user_id = :user_id AND vector_state = 'pending';

-- name: count_set_aside
SELECT -lease_until, count(*) FROM documents WHERE vector_state = 'pending' AND lease_until < 0 GROUP BY 1;

-- name: count_set_aside_of_user
SELECT -lease_until, count(*) FROM documents
WHERE vector_state = 'pending' AND lease_until < 0 AND user_id = :user_id GROUP BY 1;

-- name: requeue_set_aside
UPDATE documents SET lease_until = 0
WHERE user_id = :user_id AND vector_state = 'pending' AND lease_until < 0
RETURNING doc;

-- name: complete
UPDATE documents SET vector_state = 'ready', lease_until = 0
WHERE user_id = :user_id AND doc IN (SELECT value FROM json_each(:docs)) AND vector_state = 'pending'
RETURNING doc, kind;

-- name: mark_textless
UPDATE documents SET vector_state = 'none'
WHERE user_id = :user_id AND doc IN (SELECT value FROM json_each(:docs));

-- name: add_vector
INSERT INTO vectors (doc, owner, space, vector)
VALUES (:doc, (SELECT owner FROM owners WHERE user_id = :user_id), :space, :vector);

-- name: mark_ready
-- Records with vectors of the searched set are not pending.
UPDATE documents SET vector_state = 'ready', lease_until = 0
WHERE user_id = :user_id AND vector_state = 'pending'
  AND EXISTS (SELECT 1 FROM vectors AS v WHERE v.doc = documents.doc AND v.space = :space);

-- name: mark_pending
-- Records with a text and no vectors of the searched set are pending.
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

-- name: vectors_after
SELECT part, doc, vector FROM vectors
WHERE owner = :owner AND space = :space AND part > :after ORDER BY part LIMIT :limit;

-- name: vectors_of_docs
SELECT doc, vector FROM vectors
WHERE doc IN (SELECT value FROM json_each(:docs)) AND space = :space ORDER BY doc, part;

-- name: vectors_of_parts
SELECT part, vector FROM vectors WHERE part IN (SELECT value FROM json_each(:parts));

-- name: read_words
SELECT d.id, t.length, t.traits, t.entry FROM documents AS d JOIN terms AS t USING (doc)
WHERE d.doc IN (SELECT value FROM json_each(:docs)) AND d.user_id = :user_id;

-- name: read_terms
SELECT d.doc, d.kind, d.id, d.role, d.session_id, d.agent_id, d.seq, d.created_at,
       t.length, t.traits, t.speaker, t.entry
FROM terms AS t CROSS JOIN documents AS d USING (doc)
WHERE t.owner = (SELECT o.owner FROM owners AS o WHERE o.user_id = :user_id)
  AND t.doc > :after AND +d.user_id = :user_id ORDER BY t.doc LIMIT :limit;

-- name: amend_message
UPDATE messages SET importance = coalesce(:importance, importance) WHERE doc = :doc;

-- name: put_trash
INSERT INTO trash (user_id, kind, id, doc, agent_id, session_id, discarded_at, reason, body, crc)
VALUES (
  :user_id, :kind, :id, :doc, :agent_id, :session_id, :discarded_at, :reason, :body, :crc
)
ON CONFLICT (user_id, kind, id) DO UPDATE SET
  doc = excluded.doc, agent_id = excluded.agent_id, session_id = excluded.session_id,
  discarded_at = excluded.discarded_at, reason = excluded.reason, body = excluded.body,
  crc = excluded.crc;

-- name: erase_trash
DELETE FROM trash WHERE user_id = :user_id AND entry IN (
  SELECT t.entry FROM trash AS t WHERE {where} LIMIT :limit
)
RETURNING 1;

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
-- While a switch to another set is being completed, states still refer to the old set.
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
-- Notes that a record lost its vectors, for the next removal in Chroma.
CREATE TRIGGER IF NOT EXISTS chroma_gone AFTER DELETE ON vectors BEGIN
  UPDATE chroma_items SET state = 'going' WHERE doc = old.doc AND space = old.space AND state = 'held';
END;

-- name: chroma_leave
DROP TRIGGER IF EXISTS chroma_gone;

-- name: chroma_mark
INSERT INTO vectors (doc, owner, space, vector)
VALUES (:doc, (SELECT owner FROM owners WHERE user_id = :user_id), :space, x'');

-- name: chroma_of_tokens
SELECT i.token, d.kind, d.id, d.doc FROM chroma_items AS i
CROSS JOIN documents AS d ON d.doc = i.doc
WHERE i.user_id = :user_id AND i.token IN (SELECT value FROM json_each(:tokens))
  AND i.space = :space AND i.state = 'held' AND {where};

-- name: add_to_meta
INSERT INTO meta (name, value) VALUES (:name, :by)
ON CONFLICT (name) DO UPDATE SET value = CAST(CAST(meta.value AS INTEGER) + :by AS TEXT)
RETURNING CAST(value AS INTEGER);

-- name: drop_older_meta
DELETE FROM meta WHERE substr(name, 1, length(:prefix)) = :prefix AND name < :name;
