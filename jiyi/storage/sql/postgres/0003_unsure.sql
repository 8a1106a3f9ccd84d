-- A fact may be unsure: a newer one may have taken its place.

ALTER TABLE facts DROP CONSTRAINT facts_status_check;
ALTER TABLE facts ADD CONSTRAINT facts_status_check
  CHECK (status IN ('active', 'unsure', 'superseded', 'retracted', 'expired'));
