-- Run by a superuser with psql, once: a plain role for jiyi, its database, and the extension in it.
-- The password is what the environment variable JIYI_PASSWORD holds.
\set ON_ERROR_STOP on
\getenv password JIYI_PASSWORD
\if :{?password}
\else
  DO 'BEGIN RAISE EXCEPTION $$set JIYI_PASSWORD to the password that the role jiyi shall have$$; END';
\endif

-- No superuser and no BYPASSRLS: row level security is the second wall between users.
CREATE ROLE jiyi LOGIN PASSWORD :'password';
CREATE DATABASE jiyi OWNER jiyi ENCODING 'UTF8' TEMPLATE template0;
\connect jiyi
CREATE EXTENSION vector;
