-- Rows of other users, so that reading a whole table is dearer than going by an index.
CREATE TEMPORARY TABLE n AS
  SELECT 'u' || u AS t, u * 1000000 + i AS doc, i,
         (ARRAY['message', 'episode', 'knowledge', 'fact', 'item'])[1 + i % 5] AS kind
  FROM generate_series(0, {USERS}) AS u,
       LATERAL generate_series(1, CASE 'u' || u WHEN '{LARGE}' THEN {MANY} ELSE {RECORDS} END) AS i;
INSERT INTO owners SELECT DISTINCT t, 0, 0, 1000000000 FROM n;
INSERT INTO owners SELECT 'other' || i FROM generate_series(1, 20000) AS i;
INSERT INTO sessions SELECT t, 's' || i / 10, min(i), max(i), 1000000, count(*) FROM n GROUP BY t, i / 10;
INSERT INTO documents
  SELECT t, doc, kind, kind || i, NULL, 's' || i / 10, 'user', i, i, i % 50 = 0, true, 5, 0, NULL, 'x', .5, 9,
         'n', repeat('words ', 20) FROM n;
INSERT INTO pending (tenant_id, doc) SELECT t, doc FROM n WHERE i % 10 = 0;
INSERT INTO episodes
  SELECT t, doc, 't' || i, 'success', .5, 0, NULL, false, 'k' || i % 20 FROM n WHERE kind = 'episode';
INSERT INTO knowledge SELECT t, doc, .5, 0, NULL, i FROM n WHERE kind = 'knowledge';
INSERT INTO facts
  SELECT t, doc, 'k' || i % 20, 'p' || i % 5, 'o' || i, 'active', NULL, NULL, 1, NULL, NULL, 0, NULL
  FROM n WHERE kind = 'fact';
INSERT INTO items SELECT t, doc, 'p' || i % 50 || '/', i, i FROM n WHERE kind = 'item';
INSERT INTO sources SELECT t, 'm' || i, doc FROM n WHERE i % 2 = 0;
INSERT INTO vectors SELECT t, doc, 0, 0, kind, '[1,0,0,0]'::halfvec FROM n;
INSERT INTO tasks SELECT t, 't' || i, NULL, 's' || i / 10, 'completed', i, i, i, 'x' FROM n;
INSERT INTO steps SELECT t, 't' || i, 0, 'st' || i, 'completed', 'x' FROM n;
INSERT INTO summaries SELECT t, doc, 's' || i / 10, '', i, 'sum' || i, i, i, 'x' FROM n;
INSERT INTO covered SELECT t, 'm' || i, doc FROM n;
INSERT INTO trash SELECT t, kind, 'gone' || i, doc, doc, NULL, NULL, i, 'x', 'x' FROM n;
INSERT INTO answers SELECT t, 'k' || i, i, 'x', 200, 'x' FROM n;
ANALYZE;
