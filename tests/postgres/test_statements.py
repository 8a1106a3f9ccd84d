"""Every statement fits a cluster: it names its tenant on each table, and asks for nothing Citus refuses."""

import re
from dataclasses import replace
from itertools import combinations

import pytest
from postgres.every_verb import NARROW
from postgres.statement_reader import faults_of, faults_of_schema, is_marked
from samples import ANA
from tables import read_tables

from jiyi.records import SEARCHABLE, Query
from jiyi.storage.postgres.migrate import statements
from jiyi.storage.postgres.statements import POSTGRES
from jiyi.storage.relational.conditions import document_conditions, kind_conditions
from jiyi.storage.sql import load_migrations, load_queries

QUERIES = load_queries("postgres")
LOOK_AT_ALL = {
    "users", "users_after", "has_vectors", "first_pending", "count_pending", "count_set_aside", "totals",
    "records_that_never_get_vectors", "records_with_vectors_that_wait", "sessions_with_wrong_counts",
    "numbers_that_would_come_again", "due_readings", "count_unread",
}  # those that answer nobody's question, but look after the whole database  # fmt: skip


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
        parts["of_kinds"] = whole("nearest_exactly", where)
    return re.sub(r"^\s*--.*\n", "", QUERIES[name], flags=re.MULTILINE).format_map(Anything(parts))


@pytest.mark.parametrize("name", [name for name, text in QUERIES.items() if not is_marked(text)])
def test_every_statement_names_its_tenant(name):
    assert not faults_of(whole(name))


def test_only_these_look_at_all_users():
    marked = {name for name, text in QUERIES.items() if is_marked(text)}
    of_plain_servers = {name for name in marked if re.search(r"\bchroma_", QUERIES[name])}
    assert {name for name in marked - of_plain_servers if faults_of(QUERIES[name])} == LOOK_AT_ALL


TABLES = read_tables(__file__)
SCOPES = [ANA, replace(ANA, agent_id="a", session_id="s")]


@pytest.mark.parametrize("scope", SCOPES, ids=["user", "session"])
@pytest.mark.parametrize("kind", [*SEARCHABLE, "task", "step", "session", "summary"])
def test_every_condition_names_its_tenant(kind, scope):
    for names in [(), *combinations(NARROW, 1), *combinations(NARROW, 2)]:
        query = Query(scope=scope, kinds=(kind,), **{name: NARROW[name] for name in names})
        where, _ = kind_conditions(kind, query, POSTGRES)
        assert not faults_of(whole(f"find_{kind}", where)), names


def test_conditions_of_several_kinds_name_their_tenant():
    for name, value in NARROW.items():
        where, _ = document_conditions(Query(scope=ANA, **{name: value}), POSTGRES)
        for statement in ("count_documents", "document_ids", "count_targets"):
            assert not faults_of(whole(statement, where))


@pytest.mark.parametrize(("case", "statement"), TABLES["bad statements"])
def test_the_reader_sees_what_is_bad(case, statement):
    assert faults_of(statement), case


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


@pytest.mark.parametrize(("case", "statement"), TABLES["bad tables"])
def test_the_reader_sees_bad_tables(case, statement):
    assert faults_of_schema([statement]), case
