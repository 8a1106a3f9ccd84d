"""Reads SQL and says what a cluster would refuse: what names no tenant, and what Citus cannot do."""

import re
from collections.abc import Iterator, Sequence

import sqlglot
from sqlglot import exp

MARK = "-- every tenant: "
WHOLE = frozenset({"meta"})  # tables that every machine has
CHANGING = frozenset({"random", "rand", "clock_timestamp", "timeofday", "nextval", "uuid", "gen_random_uuid"})


_DISTANCE = re.compile(r"<[#+~%-]>")  # operators of pgvector that the parser does not know


def is_marked(statement: str) -> bool:
    """Say whether a statement's first line tells why it names no tenant."""
    return bool(re.match(rf"\s*{re.escape(MARK)}\S.+\n", statement))


def faults_of(statement: str) -> list[str]:
    """Return what is wrong with a statement, one line each."""
    try:
        tree = _parse(_DISTANCE.sub("<=>", statement))
    except sqlglot.errors.ParseError as error:
        return [f"cannot be read: {error}"]
    ours = {cte.alias for cte in tree.find_all(exp.CTE)}
    found = [fault for node in _scopes(tree) for fault in _unnamed(node, ours)]
    found += [fault for insert in tree.find_all(exp.Insert) for fault in _of_insert(insert)]
    for update in tree.find_all(exp.Update):
        changed = [part.this.name for part in update.expressions if isinstance(part, exp.EQ)]
        found += ["changes the tenant"] * ("tenant_id" in changed)
    found += [f"{name} gives something else each time" for name in sorted(_called(tree) & CHANGING)]
    for join in tree.find_all(exp.Join):
        found += ["joins with USING"] * bool(join.args.get("using"))
    return found


def _parse(statement: str) -> exp.Expression:
    return sqlglot.parse_one(statement, read="postgres", error_level=sqlglot.ErrorLevel.RAISE)


def _scopes(tree: exp.Expression) -> Iterator[exp.Expression]:
    yield from tree.find_all(exp.Select, exp.Update, exp.Delete)


def _unnamed(node: exp.Expression, ours: set[str]) -> Iterator[str]:
    """Give the tables of a SELECT, UPDATE or DELETE whose tenant is not among its own conditions."""
    tables = list(_tables(node))
    conditions = list(_conditions(node))
    for table in tables:
        if table.name in ours | WHOLE or table.name.startswith("pg_"):
            continue
        names = {table.alias_or_name} | ({""} if len(tables) == 1 else set())
        if not any(_names_tenant(condition, names) for condition in conditions):
            yield f"{table.sql()} has no tenant"


def _sources(node: exp.Expression) -> list[exp.Expression]:
    """Return what a SELECT, UPDATE or DELETE itself names, without its joins."""
    named = [node.this] if isinstance(node, exp.Update | exp.Delete) else []
    came_from = node.args.get("from_")
    return [*named, *([came_from.this] if came_from else []), *(node.args.get("using") or [])]


def _joins(node: exp.Expression) -> list[exp.Join]:
    return [join for holder in [node, *_sources(node)] for join in holder.args.get("joins") or []]


def _tables(node: exp.Expression) -> Iterator[exp.Table]:
    for source in [*_sources(node), *(join.this for join in _joins(node))]:
        if isinstance(source, exp.Table):
            yield source


def _conditions(node: exp.Expression) -> Iterator[exp.Expression]:
    """Give what must be true of every row: the parts of WHERE and ON that AND holds together."""
    clauses = [node.args["where"].this] if node.args.get("where") else []
    clauses += [join.args["on"] for join in _joins(node) if join.args.get("on")]
    for clause in clauses:
        yield from clause.flatten() if isinstance(clause, exp.And) else [clause]


def _names_tenant(condition: exp.Expression, names: set[str]) -> bool:
    column, value = condition.args.get("this"), condition.args.get("expression")
    return (
        isinstance(condition, exp.EQ)
        and isinstance(column, exp.Column)
        and isinstance(value, exp.Placeholder)
        and (column.name, value.name) == ("tenant_id", "user_id")
        and column.table in names
    )


def _of_insert(insert: exp.Insert) -> Iterator[str]:
    schema, source = insert.this, insert.expression
    if schema.find(exp.Table).name in WHOLE:
        return
    columns = [column.name for column in schema.expressions]
    if isinstance(source, exp.Values):
        if source.find(exp.Select):
            yield "has a question among its VALUES"
        for row in source.expressions:
            value = dict(zip(columns, row.expressions, strict=False)).get("tenant_id")
            if not isinstance(value, exp.Placeholder) or value.name != "user_id":
                yield "puts no tenant into the row"
        return
    if columns[:1] != ["tenant_id"] or source.expressions[0].name != "tenant_id":
        yield "does not hand the tenant on from the rows it reads"
    if not insert.args.get("conflict"):
        # Citus may move such rows by COPY, which row level security refuses.
        yield "puts rows it reads without ON CONFLICT"
    if source.find(exp.Unnest) or source.find(exp.ExplodingGenerateSeries):
        yield "makes rows of a list"


def _called(tree: exp.Expression) -> set[str]:
    names = {call.name for call in tree.find_all(exp.Anonymous)}
    names |= {call.sql_name() for call in tree.find_all(exp.Func) if not isinstance(call, exp.Anonymous)}
    return {name.lower() for name in names}


def faults_of_schema(script: Sequence[str]) -> list[str]:
    """Return what is wrong with the statements of a migration, one line each."""
    return [fault for statement in script for fault in _of_definition(re.sub(r"--.*", "", statement).strip())]


def _of_definition(words: str) -> Iterator[str]:
    if re.search(r"serial\b|\bsequence\b|\bidentity\b|\bnextval\b", words, re.IGNORECASE):
        yield f"{words[:60]}: has a sequence"
    if made := re.match(
        r"CREATE (?:OR REPLACE )?(TRIGGER|FUNCTION|PROCEDURE|(?:MATERIALIZED )?VIEW)\b", words
    ):
        yield f"{words[:60]}: a {made[1].lower()} is not handed on"
    if re.match(r"CREATE TABLE\b", words):
        yield from _of_table(_parse(words))
    if re.match(r"CREATE UNIQUE INDEX\b", words):
        index = _parse(words).this
        columns = [column.this.name for column in index.args["params"].args["columns"]]
        if columns[:1] != ["tenant_id"]:
            yield f"{index.name}: unique without the tenant first"
    later = re.search(r"^ALTER TABLE\b.*\b(UNIQUE|PRIMARY KEY|REFERENCES)\b", words, re.DOTALL)
    if later and set(re.findall(r"(?:UNIQUE|KEY|REFERENCES \w+) \((\w+)", words)) != {"tenant_id"}:
        yield f"{words[:60]}: {later[1].lower()} without the tenant first"


def _of_table(tree: exp.Expression) -> Iterator[str]:
    name, parts = tree.this.this.name, tree.this.expressions
    if name in WHOLE:
        return
    columns = {part.name: part for part in parts if isinstance(part, exp.ColumnDef)}
    tenant = columns.get("tenant_id")
    if tenant is None or not tenant.find(exp.CollateColumnConstraint):
        yield f"{name}: no tenant_id in the order of bytes"
    for column in columns.values():
        alone = column.find(exp.PrimaryKeyColumnConstraint, exp.UniqueColumnConstraint)
        if alone and column.name != "tenant_id":
            yield f"{name}.{column.name}: unique without the tenant"
        if column.find(exp.Reference):
            yield f"{name}.{column.name}: refers to a table without the tenant"
    for part in parts:
        if isinstance(part, exp.PrimaryKey | exp.ForeignKey):
            keys = [[key.name for key in part.expressions]]
        elif isinstance(part, exp.UniqueColumnConstraint):
            keys = [[key.name for key in part.this.expressions]]
        else:
            continue
        if isinstance(part, exp.ForeignKey):
            keys.append([key.name for key in part.args["reference"].this.expressions])
        if any(key[:1] != ["tenant_id"] for key in keys):
            yield f"{name}: {part.sql()} does not begin with the tenant"
