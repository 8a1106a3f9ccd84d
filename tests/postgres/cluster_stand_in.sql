-- What jiyi asks of Citus, on one machine: where tables lie is only written down. It refuses as Citus does.
CREATE TABLE pg_dist_partition (logicalrelid oid PRIMARY KEY, partmethod "char", colocationid int);
CREATE TABLE pg_dist_node (isactive bool, noderole text, shouldhaveshards bool);
INSERT INTO pg_dist_node VALUES (true, 'primary', true), (true, 'primary', true), (false, 'primary', true);
CREATE TABLE calls (n int GENERATED ALWAYS AS IDENTITY, verb text, name text, shards int);
CREATE TABLE broken (name text);
CREATE FUNCTION create_reference_table(t regclass) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
  INSERT INTO pg_dist_partition VALUES (t, 'n', 0);
  INSERT INTO calls (verb, name) VALUES ('reference', t::text);
END $$;
CREATE FUNCTION create_distributed_table(t regclass, col text, how text, beside text, shards int DEFAULT NULL)
RETURNS void LANGUAGE plpgsql AS $$
BEGIN
  IF EXISTS (SELECT FROM broken WHERE name = t::text) THEN
    RAISE 'connection to the remote node failed' USING ERRCODE = '08006';
  END IF;
  IF EXISTS (
    SELECT FROM pg_constraint WHERE conrelid = t AND contype = 'f'
      AND confrelid NOT IN (SELECT logicalrelid FROM pg_dist_partition)
  ) THEN
    RAISE 'referenced table must be a distributed table or a reference table';
  END IF;
  IF (SELECT relforcerowsecurity FROM pg_class WHERE oid = t) THEN
    RAISE 'COPY FROM not supported with row-level security';
  END IF;
  INSERT INTO pg_dist_partition VALUES (t, 'h', CASE beside WHEN 'none' THEN 1 ELSE (
    SELECT colocationid FROM pg_dist_partition WHERE logicalrelid = beside::regclass) END);
  INSERT INTO calls (verb, name, shards) VALUES ('cut', t::text, shards);
END $$;
CREATE FUNCTION truncate_local_data_after_distributing_table(t regclass) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
  EXECUTE format('TRUNCATE %s CASCADE', t);
  INSERT INTO calls (verb, name) VALUES ('empty', t::text);
END $$;
