-- Conditions that are written otherwise elsewhere; see ../conditions.sql.

-- name: kept
d.{column};
-- name: json_text
((@readable)::jsonb ->> '{name}') COLLATE "C";
-- name: label
CASE WHEN {body} LIKE '%"metadata":{{%' THEN EXISTS (SELECT 1 FROM (SELECT (@readable)::jsonb -> 'metadata' -> :{key}::text AS value) AS e WHERE e.value IS NOT NULL AND {test}) ELSE false END;
-- name: label_in
EXISTS (SELECT 1 FROM jsonb_array_elements(:{value}::jsonb) AS w WHERE w.value = e.value);
-- name: label_number
jsonb_typeof(e.value) = 'number' AND e.value {sign} to_jsonb(:{value});
-- name: label_text
jsonb_typeof(e.value) = 'string' AND {test};
-- name: label_words
(e.value #>> '{}') COLLATE "C";
-- name: holds
strpos({text}, :{value}) > 0;
-- name: aside
;

-- jsonb takes no zero byte and no half of a surrogate pair, which the words of a message may hold: they
-- are left out in what stands above as @readable. Escaped backslashes stand aside meanwhile as a character that
-- no JSON text holds.

-- name: readable
CASE WHEN strpos({body}, '\u') = 0 THEN {body}
ELSE replace(regexp_replace(replace({body}, '\\', chr(1)), '\\u0000|\\ud[89ab][0-9a-f]{{2}}(?!\\ud[c-f])|(?<!\\ud[89ab][0-9a-f]{{2}})\\ud[c-f][0-9a-f]{{2}}',
'', 'g'), chr(1), '\\') END;
