CREATE TABLE checkpoints (
    thread_id text, checkpoint_ns text, checkpoint_id text, parent_checkpoint_id text, type text,
    checkpoint jsonb, metadata jsonb
);
CREATE TABLE checkpoint_blobs (
    thread_id text, checkpoint_ns text, channel text, version text, type text, blob bytea
);
CREATE TABLE store (prefix text, key text, value jsonb, created_at timestamptz, u text);
