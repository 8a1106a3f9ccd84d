#!/bin/sh
# Start a Citus cluster for tests: a coordinator on port 21500, two machines on 21501 and 21502, all on localhost.
#
#     sh tests/postgres/cluster.sh BIN FOLDER     # run by root: the servers run as the system user postgres
#     JIYI_TEST_CITUS_URL=postgresql://jiyi:pw@localhost:21500/jiyi pytest -n0 tests/postgres tests/contract -k citus
#     for n in 0 1 2; do kill -INT "$(head -1 FOLDER/$n/postmaster.pid)"; done
#
# BIN is the folder of initdb and pg_config of a PostgreSQL that has Citus and pgvector.
set -e
bin=$1 folder=$2
mkdir -p "$folder"
chown postgres "$folder"
as() { setpriv --reuid=postgres --regid=postgres --clear-groups env HOME="$folder" LC_ALL=C PGPASSFILE="$folder/.pgpass" "$@"; }
say() { port=$1 database=$2; shift 2; PGPASSWORD=super psql -q -h localhost -p "$port" -U postgres "$database" "$@"; }
printf 'localhost:*:*:postgres:super\nlocalhost:*:*:jiyi:pw\n' | as tee "$folder/.pgpass" > /dev/null
echo super | as tee "$folder/password" > /dev/null
as chmod 600 "$folder/.pgpass" "$folder/password"
for n in 0 1 2; do
  as "$bin/initdb" -D "$folder/$n" -U postgres --pwfile "$folder/password" -A scram-sha-256 -E UTF8 --locale=C > /dev/null
  as tee -a "$folder/$n/postgresql.conf" > /dev/null << END
shared_preload_libraries = 'citus'
port = 2150$n
listen_addresses = 'localhost'
unix_socket_directories = '$folder'
wal_level = logical
max_connections = 150
max_prepared_transactions = 150
fsync = off
citus.node_conninfo = 'sslmode=prefer'
END
  as "$bin/pg_ctl" -D "$folder/$n" -l "$folder/$n.log" -w start > /dev/null
  say 2150$n postgres -c "CREATE ROLE jiyi LOGIN PASSWORD 'pw'" -c "CREATE DATABASE jiyi OWNER jiyi"
  say 2150$n jiyi -c "CREATE EXTENSION citus" -c "CREATE EXTENSION vector"
done
say 21500 jiyi -c "SELECT citus_set_coordinator_host('localhost', 21500)" \
  -c "SELECT citus_add_node('localhost', 21501)" -c "SELECT citus_add_node('localhost', 21502)"
