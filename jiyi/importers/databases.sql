-- What is read from databases of other programs, by name.

-- name: begin
-- The last one fails if the file is no database.
PRAGMA trusted_schema = OFF; PRAGMA query_only = ON; PRAGMA cell_size_check = ON; PRAGMA mmap_size = 0;
SELECT count(*) FROM sqlite_schema;

-- name: tables
SELECT name FROM sqlite_schema WHERE type = 'table' AND sql IS NOT NULL;

-- name: columns
SELECT name FROM pragma_table_info(?);

-- MemPalace

-- name: drawers
SELECT e.embedding_id, m.key, coalesce(m.string_value, m.int_value, m.float_value), c.name
FROM embeddings AS e JOIN segments AS s ON s.id = e.segment_id JOIN collections AS c ON c.id = s.collection
JOIN embedding_metadata AS m ON m.id = e.id ORDER BY e.id;

-- name: triples
SELECT t.id, coalesce(s.name, t.subject), t.predicate, coalesce(o.name, t.object), valid_from, valid_to,
       confidence, extracted_at || 'Z', source_file
FROM triples AS t LEFT JOIN entities AS s ON s.id = t.subject LEFT JOIN entities AS o ON o.id = t.object
ORDER BY t.rowid;

-- LangGraph in a file

-- name: file_users
SELECT DISTINCT iif(json_valid(CAST(metadata AS TEXT)), CAST(metadata AS TEXT) ->> '$.user_id', NULL)
FROM checkpoints WHERE checkpoint_ns = '';

-- name: file_states
SELECT thread_id, type, checkpoint,
       iif(json_valid(CAST(metadata AS TEXT)), CAST(metadata AS TEXT) ->> '$.user_id', NULL)
FROM checkpoints AS c WHERE checkpoint_ns = '' AND checkpoint_id =
(SELECT max(checkpoint_id) FROM checkpoints WHERE thread_id = c.thread_id AND checkpoint_ns = '')
ORDER BY thread_id;

-- name: file_subgraphs
SELECT count(DISTINCT thread_id || checkpoint_ns) FROM checkpoints WHERE checkpoint_ns <> '';

-- name: file_items
SELECT prefix, key, value, created_at || 'Z' FROM store ORDER BY created_at, prefix, key;

-- LangGraph on a PostgreSQL server

-- name: server_tables
SELECT to_regclass('checkpoints') IS NOT NULL, to_regclass('store') IS NOT NULL;

-- name: server_users
SELECT DISTINCT metadata ->> 'user_id' FROM checkpoints WHERE checkpoint_ns = '';

-- name: server_states
SELECT c.thread_id, b.type, b.blob, c.checkpoint ->> 'ts', c.checkpoint -> 'channel_values' -> 'messages',
       c.metadata ->> 'user_id'
FROM (SELECT DISTINCT ON (thread_id) thread_id, checkpoint, metadata FROM checkpoints WHERE checkpoint_ns = ''
      ORDER BY thread_id, checkpoint_id DESC) AS c
LEFT JOIN checkpoint_blobs AS b ON b.thread_id = c.thread_id AND b.checkpoint_ns = ''
     AND b.channel = 'messages' AND b.version = c.checkpoint -> 'channel_versions' ->> 'messages'
ORDER BY c.thread_id;

-- name: server_items
SELECT prefix, key, value, created_at FROM store ORDER BY created_at, prefix, key;
