-- A fact may be unsure: a newer one may have taken its place. SQLite cannot alter a constraint; this is
-- the way its manual gives for changes that leave the rows as they are (lang_altertable.html, 7).
PRAGMA writable_schema = ON;
UPDATE sqlite_schema
SET sql = replace(sql, '''active'', ''superseded''', '''active'', ''unsure'', ''superseded''')
WHERE type = 'table' AND name = 'facts';
PRAGMA writable_schema = RESET;

-- What every window shows of a user is found by its points, whatever the subject is called.
CREATE INDEX facts_by_point ON facts (owner, predicate_key);
