-- A machine is away: whoever looks at a row of its users is told so.
CREATE FUNCTION answers(tenant text) RETURNS boolean LANGUAGE plpgsql COST 1 AS $$
BEGIN
  IF tenant LIKE 'dead%' THEN
    RAISE EXCEPTION 'connection to the remote node jiyi@east:5432 failed' USING ERRCODE = '08006';
  END IF;
  RETURN true;
END $$;
CREATE POLICY machine ON pending AS RESTRICTIVE USING (answers(tenant_id));
CREATE POLICY machine ON documents AS RESTRICTIVE USING (answers(tenant_id));
CREATE POLICY machine ON owners AS RESTRICTIVE USING (answers(tenant_id));
