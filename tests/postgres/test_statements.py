"""Every statement fits a cluster: it names its tenant on each table, and asks for nothing Citus refuses."""

import re
from dataclasses import replace
from itertools import combinations

import pytest
from postgres.every_verb import NARROW
from postgres.statement_reader import faults_of, faults_of_schema, is_marked
from samples import ANA

from jiyi.records import SEARCHABLE, Query
from jiyi.storage.postgres.migrate import statements
from jiyi.storage.postgres.statements import POSTGRES
from jiyi.storage.relational.conditions import on_documents, on_kind
from jiyi.storage.sql import load_migrations, load_queries

QUERIES = load_queries("postgres")
LOOK_AT_ALL = {
    "users",
    "users_after",
    "any_vectors",
    "first_pending",
    "count_pending",
    "count_apart",
    "totals",
    "records_that_never_get_vectors",
    "records_with_vectors_that_wait",
    "sessions_with_wrong_counts",
    "numbers_that_would_come_again",
    "due_readings",
    "count_unread",
}  # those that answer nobody's question, but look after the whole database


class Anything(dict[str, str]):
    """Parts of a statement; what is not told is a number."""

    def __missing__(self, key: str) -> str:
        return "1"


def whole(name: str, where: str | None = None) -> str:
    """A statement with something sensible for what stands in braces."""
    found = re.search(r"\b(?:documents|tasks|sessions|summaries|trash) AS (\w)", QUERIES[name])
    alias = found[1] if found else ""
    parts = {"where": where or f"{alias}.tenant_id = :user_id", "order": "ASC", "by": f"{alias}.doc"}
    parts |= {"among": "d.kind = 'fact'", "and_where": "AND v.kind = 'fact'", "kind": "fact"}
    if "{of_kinds}" in QUERIES[name]:
        parts["of_kinds"] = whole("nearest_of_kind", where)
    return re.sub(r"^\s*--.*\n", "", QUERIES[name], flags=re.MULTILINE).format_map(Anything(parts))


@pytest.mark.parametrize("name", [name for name, text in QUERIES.items() if not is_marked(text)])
def test_every_statement_names_its_tenant(name):
    assert not faults_of(whole(name))


def test_only_these_look_at_all_users():
    marked = {name for name, text in QUERIES.items() if is_marked(text)}
    of_plain_servers = {name for name in marked if re.search(r"\bchroma_", QUERIES[name])}
    assert {name for name in marked - of_plain_servers if faults_of(QUERIES[name])} == LOOK_AT_ALL


SCOPES = [ANA, replace(ANA, agent_id="a", session_id="s")]


@pytest.mark.parametrize("scope", SCOPES, ids=["user", "session"])
@pytest.mark.parametrize("kind", [*SEARCHABLE, "task", "step", "session", "summary"])
def test_every_condition_names_its_tenant(kind, scope):
    for names in [(), *combinations(NARROW, 1), *combinations(NARROW, 2)]:
        query = Query(scope=scope, kinds=(kind,), **{name: NARROW[name] for name in names})
        where, _ = on_kind(kind, query, POSTGRES)
        assert not faults_of(whole(f"find_{kind}", where)), names


def test_conditions_of_several_kinds_name_their_tenant():
    for name, value in NARROW.items():
        where, _ = on_documents(Query(scope=ANA, **{name: value}), POSTGRES)
        for statement in ("count_documents", "document_ids", "count_targets"):
            assert not faults_of(whole(statement, where))


BAD = {
    "no tenant": "SELECT doc FROM items WHERE doc = :doc",
    "a tenant that is a text": "SELECT doc FROM items WHERE tenant_id = 'ana'",
    "another value": "SELECT doc FROM items WHERE tenant_id = :doc",
    "a tenant under OR": "SELECT doc FROM items WHERE tenant_id = :user_id OR doc = :doc",
    "joined without": "SELECT 1 FROM x JOIN facts AS f ON f.doc = x.doc WHERE x.tenant_id = :user_id",
    "which of two is meant": "SELECT 1 FROM items AS d JOIN facts AS f ON true WHERE tenant_id = :user_id",
    "equal to that of the other": (
        "SELECT 1 FROM items AS d JOIN facts AS f ON f.tenant_id = d.tenant_id WHERE d.tenant_id = :user_id"
    ),
    "a question inside": (
        "SELECT 1 FROM items AS d WHERE d.tenant_id = :user_id AND d.doc IN (SELECT f.doc FROM facts AS f)"
    ),
    "a question about that of the outer one": (
        "DELETE FROM items AS d WHERE d.tenant_id = :user_id"
        " AND EXISTS (SELECT 1 FROM facts AS f WHERE f.tenant_id = d.tenant_id)"
    ),
    "updating": "UPDATE facts SET status = :status WHERE doc = :doc",
    "updating from another": "UPDATE facts AS f SET doc = d.doc FROM items AS d WHERE f.tenant_id = :user_id",
    "deleting": "DELETE FROM facts WHERE doc = :doc",
    "deleting by another": "DELETE FROM facts AS f USING items AS d WHERE f.tenant_id = :user_id",
    "in a WITH": "WITH w AS (DELETE FROM facts RETURNING doc) SELECT doc FROM w",
    "moving to another tenant": "UPDATE facts SET tenant_id = :other WHERE tenant_id = :user_id",
    "a row without": "INSERT INTO facts (doc) VALUES (:doc)",
    "a row of somebody": "INSERT INTO facts (tenant_id, doc) VALUES ('ana', :doc)",
    "a question among values": (
        "INSERT INTO facts (tenant_id, doc)"
        " VALUES (:user_id, (SELECT max(f.doc) FROM facts AS f WHERE f.tenant_id = :user_id))"
    ),
    "rows of a list": (
        "INSERT INTO x (tenant_id, doc) SELECT :user_id, unnest(:a) ON CONFLICT (tenant_id, doc) DO NOTHING"
    ),
    "rows moved by COPY": (
        "INSERT INTO x (tenant_id, doc) SELECT d.tenant_id, d.doc FROM y AS d WHERE d.tenant_id = :user_id"
    ),
    "another value each time": "UPDATE facts SET doc = random() WHERE tenant_id = :user_id",
    "a number of a sequence": "UPDATE facts SET doc = nextval('numbers') WHERE tenant_id = :user_id",
    "a join with USING": "SELECT 1 FROM facts AS f JOIN meta AS m USING (doc) WHERE f.tenant_id = :user_id",
    "nonsense": "SELECT FROM WHERE (",
}


@pytest.mark.parametrize("case", BAD)
def test_the_reader_sees_what_is_bad(case):
    assert faults_of(BAD[case])


@pytest.mark.parametrize("number", load_migrations("postgres"))
def test_every_key_begins_with_the_tenant(number):
    script = statements(load_migrations("postgres")[number])
    assert script
    assert not faults_of_schema(script)


def test_a_migration_falls_into_its_statements():
    script = load_migrations("postgres")[1]
    parts = statements(script)
    assert len(parts) == len(re.findall(r";$", script, re.MULTILINE))
    assert not any(re.search(r";\s*\n", part) for part in parts)


BAD_SCHEMA = {
    "no tenant": "CREATE TABLE x (doc bigint PRIMARY KEY)",
    "another order of texts": "CREATE TABLE x (tenant_id text PRIMARY KEY)",
    "a key without": 'CREATE TABLE x (tenant_id text COLLATE "C", doc bigint, PRIMARY KEY (doc))',
    "a key with it last": 'CREATE TABLE x (tenant_id text COLLATE "C", n int, PRIMARY KEY (n, tenant_id))',
    "a column's key": 'CREATE TABLE x (tenant_id text COLLATE "C", doc bigint PRIMARY KEY)',
    "a column's uniqueness": 'CREATE TABLE x (tenant_id text COLLATE "C" PRIMARY KEY, id text UNIQUE)',
    "uniqueness": 'CREATE TABLE x (tenant_id text COLLATE "C" PRIMARY KEY, id text, UNIQUE (id))',
    "a reference": (
        'CREATE TABLE x (tenant_id text COLLATE "C" PRIMARY KEY, doc bigint,'
        " FOREIGN KEY (doc) REFERENCES documents (doc))"
    ),
    "a column's reference": (
        'CREATE TABLE x (tenant_id text COLLATE "C" PRIMARY KEY, doc bigint REFERENCES documents (doc))'
    ),
    "an index": "CREATE UNIQUE INDEX x_id ON x (id)",
    "a later key": "ALTER TABLE x ADD UNIQUE (id)",
    "a sequence": 'CREATE TABLE x (tenant_id text COLLATE "C" PRIMARY KEY, doc bigserial)',
    "an identity": (
        'CREATE TABLE x (tenant_id text COLLATE "C" PRIMARY KEY, doc bigint GENERATED ALWAYS AS IDENTITY)'
    ),
    "a trigger": "CREATE TRIGGER t AFTER INSERT ON x EXECUTE FUNCTION f()",
    "a function": "CREATE FUNCTION f() RETURNS int LANGUAGE sql AS 'SELECT 1'",
}


@pytest.mark.parametrize("case", BAD_SCHEMA)
def test_the_reader_sees_bad_tables(case):
    assert faults_of_schema([BAD_SCHEMA[case]])
