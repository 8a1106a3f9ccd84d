-- Conditions and expressions in PostgreSQL's dialect; see ../conditions.sql.

-- name: record_column
d.{column};
-- name: json_text
((@readable)::jsonb ->> '{name}') COLLATE "C";
-- name: metadata_test
CASE WHEN {body} LIKE '%"metadata":{{%' THEN EXISTS (SELECT 1 FROM (SELECT (@readable)::jsonb -> 'metadata' -> :{key}::text AS value) AS e WHERE e.value IS NOT NULL AND {test}) ELSE false END;
-- name: value_in_list
EXISTS (SELECT 1 FROM jsonb_array_elements(:{value}::jsonb) AS w WHERE w.value = e.value);
-- name: number_test
jsonb_typeof(e.value) = 'number' AND e.value {sign} to_jsonb(:{value});
-- name: text_test
jsonb_typeof(e.value) = 'string' AND {test};
-- name: value_text
(e.value #>> '{}') COLLATE "C";
-- name: contains
strpos({text}, :{value}) > 0;
-- name: no_index
;

-- jsonb accepts neither zero bytes nor lone surrogates, which messages may contain: @readable removes them.
-- Escaped backslashes are replaced meanwhile by a character that no JSON text contains.

-- name: readable
CASE WHEN strpos({body}, '\u') = 0 THEN {body}
ELSE replace(regexp_replace(replace({body}, '\\', chr(1)), '\\u0000|\\ud[89ab][0-9a-f]{{2}}(?!\\ud[c-f])|(?<!\\ud[89ab][0-9a-f]{{2}})\\ud[c-f][0-9a-f]{{2}}',
'', 'g'), chr(1), '\\') END;
