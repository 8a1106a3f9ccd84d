-- Conditions and expressions in SQLite's dialect; see ../conditions.sql.

-- name: record_column
(SELECT x.{column} FROM {table} AS x WHERE x.doc = d.doc);
-- name: json_text
json_extract({body}, '$.{name}');
-- name: metadata_test
EXISTS (SELECT 1 FROM json_each({body}, '$.metadata') AS e WHERE e.key = :{key} AND {test});

-- 1 and 1.0 are equal numbers, but true, which is 1 in json_each, is none.

-- name: value_in_list
EXISTS (SELECT 1 FROM json_each(:{value}) AS w WHERE e.atom IS w.atom AND replace(e.type, 'real', 'integer') = replace(w.type, 'real', 'integer'));
-- name: number_test
e.type IN ('integer', 'real') AND e.atom {sign} :{value};
-- name: text_test
e.type = 'text' AND {test};
-- name: value_text
e.atom;
-- name: contains
instr({text}, :{value}) > 0;
-- name: no_index
+;
