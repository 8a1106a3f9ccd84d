-- The CRC-32 of what a row says, by which a damaged one is known (jiyi/storage/seals.py says what it covers).
-- A step in Python fills it in the rows that are there; 0 stands for one that could not be read even then.

ALTER TABLE messages ADD COLUMN crc INTEGER NOT NULL DEFAULT 0;
ALTER TABLE episodes ADD COLUMN crc INTEGER NOT NULL DEFAULT 0;
ALTER TABLE knowledge ADD COLUMN crc INTEGER NOT NULL DEFAULT 0;
ALTER TABLE facts ADD COLUMN crc INTEGER NOT NULL DEFAULT 0;
ALTER TABLE tasks ADD COLUMN crc INTEGER NOT NULL DEFAULT 0;
ALTER TABLE steps ADD COLUMN crc INTEGER NOT NULL DEFAULT 0;
ALTER TABLE summaries ADD COLUMN crc INTEGER NOT NULL DEFAULT 0;
ALTER TABLE trash ADD COLUMN crc INTEGER NOT NULL DEFAULT 0;
