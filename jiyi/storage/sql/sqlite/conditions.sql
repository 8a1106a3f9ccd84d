-- Conditions and expressions in SQLite's dialect; see ../conditions.sql.

-- name: kept
(SELECT x.{column} FROM {table} AS x WHERE x.doc = d.doc);
-- name: json_text
json_extract({body}, '$.{name}');
-- name: label
EXISTS (SELECT 1 FROM json_each({body}, '$.metadata') AS e WHERE e.key = :{key} AND {test});

-- 1 and 1.0 are equal numbers, but true, which is 1 in json_each, is none.

-- name: label_in
EXISTS (SELECT 1 FROM json_each(:{value}) AS w WHERE e.atom IS w.atom AND replace(e.type, 'real', 'integer') = replace(w.type, 'real', 'integer'));
-- name: label_number
e.type IN ('integer', 'real') AND e.atom {sign} :{value};
-- name: label_text
e.type = 'text' AND {test};
-- name: label_words
e.atom;
-- name: holds
instr({text}, :{value}) > 0;
-- name: aside
+;
