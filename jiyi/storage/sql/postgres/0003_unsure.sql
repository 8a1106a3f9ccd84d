-- A fact may be unsure: a newer one may have taken its place.

ALTER TABLE facts DROP CONSTRAINT facts_status_check;
ALTER TABLE facts ADD CONSTRAINT facts_status_check
  CHECK (status IN ('active', 'unsure', 'superseded', 'retracted', 'expired'));

-- What every window shows of a user is found by its points, whatever the subject is called.
CREATE INDEX facts_by_point ON facts (tenant_id, predicate_key);
