"""A table of Iceberg, by pyiceberg and its catalogs: no jar is needed.

The number of a batch is a property of the table, set in the commit of the batch's rows: other
writers' snapshots, and expiry, leave it. A commit is based on the snapshot in which that number was
looked up; if the table has another one by then, the commit is refused, and begins anew.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from gapless.errors import GaplessError, UsageError
from gapless.failpoints import hit
from gapless.features.spark.pipeline.merge import DELETED, SEQUENCE, keys_in, newer, rows_of
from gapless.features.spark.pipeline.spec import TargetSpec
from gapless.settings import dereference

if TYPE_CHECKING:
    import pyarrow as pa
    from pyiceberg.catalog import Catalog
    from pyiceberg.expressions import BooleanExpression
    from pyiceberg.table import Table

_TRIES = 5
_FEW_KEYS = 200  # of so many, pyiceberg compares each with the bounds of a file
_RETRIES = "commit.retry.num-retries"


def require_iceberg() -> None:
    """Raise UsageError where the package that writes Iceberg is missing."""
    try:
        import pyiceberg  # noqa: F401 - an extra
    except ImportError as error:
        raise UsageError(
            f"a target iceberg needs {error.name}, which is not installed: "
            "pip install gapless[iceberg]"
        ) from error


class Iceberg:
    """A table in a catalog of Iceberg. It is a LakeTable."""

    def __init__(self, target: TargetSpec) -> None:
        self._target = target
        self._cached: Catalog | None = None

    @contextmanager
    def explained(self) -> Iterator[None]:
        """See LakeTable."""
        from pyiceberg.exceptions import CommitFailedException

        try:
            yield
        except GaplessError as error:
            raise type(error)(f"Iceberg table {self._target.where}: {error}") from None
        except CommitFailedException as error:
            raise GaplessError(
                f"Iceberg table {self._target.where} was changed {_TRIES} times while a batch was "
                "written to it: run the pipeline again"
            ) from error
        except Exception as error:
            if not _is_of_iceberg(error):
                raise
            line = " ".join(str(error).split())
            raise GaplessError(f"Iceberg table {self._target.where}: {line[:400]}") from error

    def done(self, app: str) -> int | None:
        """See LakeTable."""
        from pyiceberg.exceptions import NoSuchTableError

        try:
            return _done(self._load(), app)
        except NoSuchTableError:
            return None

    def fit(self, rows: pa.Table) -> None:
        """See LakeTable."""
        stored = rows.drop_columns([DELETED]) if self._target.is_upsert else rows
        _require_parts(stored, self._target.partition_by)
        table = self._table(stored.schema)
        if missing := _missing(table, stored.schema, self._target):
            with table.update_schema() as update:
                update.union_by_name(stored.select(missing).schema)

    def write(self, rows: pa.Table, app: str, number: int) -> None:
        """See LakeTable: of two commits at once, the second is refused, and looks again."""
        from pyiceberg.exceptions import CommitFailedException

        for attempt in range(_TRIES):
            table = self._load()
            done = _done(table, app)
            if done is not None and done >= number:
                return  # another run was faster
            # pyiceberg would append the rows again to whatever the table has become: not in here,
            # where the number was looked up in this snapshot. It is not stored.
            table.metadata.properties[_RETRIES] = "0"
            hit("pipeline.looked")
            try:
                self._commit(table, rows, {_property(app): str(number)})
            except CommitFailedException:
                if attempt == _TRIES - 1:
                    raise
            else:
                return

    def close(self) -> None:
        """See LakeTable."""
        if self._cached is not None:
            self._cached.close()
            self._cached = None

    def _commit(self, table: Table, rows: pa.Table, properties: dict[str, str]) -> None:
        """Commit rows and properties at once; an upsert removes the rows that they replace."""
        import pyarrow.compute as pc

        replaced = None
        if self._target.is_upsert:
            key = self._target.key
            there = self._there(table, rows)
            rows = newer(rows, there, key)
            replaced = keys_in(rows, there, key)
            rows = rows.filter(pc.invert(rows[DELETED])).drop_columns([DELETED])
        with table.transaction() as commit:
            if replaced is not None and replaced.num_rows:
                commit.delete(_among(replaced))
            if rows.num_rows:
                commit.append(rows)
            commit.set_properties(properties)

    def _there(self, table: Table, rows: pa.Table) -> pa.Table:
        """Return keys and sequence of the rows that the table has of these keys."""
        import pyarrow as pa

        key = self._target.key
        fields = (*key, *SEQUENCE)
        scan = table.scan(_near(rows.select(key)), selected_fields=fields)
        reader = scan.to_arrow_batch_reader()
        schema = pa.schema(rows.schema.field(name) for name in fields)
        found = [
            rows_of(pa.Table.from_batches([batch]).select(fields).cast(schema), rows, key)
            for batch in reader
        ]
        return pa.concat_tables(found) if found else schema.empty_table()

    def _table(self, schema: pa.Schema) -> Table:
        """Return the table, created if there is none, partitioned from its first commit on."""
        from pyiceberg.exceptions import NoSuchTableError, TableAlreadyExistsError

        try:
            return self._load()
        except NoSuchTableError:
            pass
        catalog, name = self._catalog(), self._target.where
        catalog.create_namespace_if_not_exists(name.rpartition(".")[0])
        try:
            made = catalog.create_table_transaction(name, schema=schema)
            with made, made.update_spec() as parts:
                for column in self._target.partition_by:
                    parts.add_identity(column)
        except TableAlreadyExistsError:
            pass  # another run was faster
        return self._load()

    def _load(self) -> Table:
        return self._catalog().load_table(self._target.where)

    def _catalog(self) -> Catalog:
        from pyiceberg.catalog import load_catalog

        if self._cached is None:
            target = self._target
            properties = {
                name: dereference(value) if value.startswith("env:") else value
                for name, value in target.catalog_properties.items()
            }
            try:
                self._cached = load_catalog(target.catalog, **properties)
            except ValueError as error:
                name = target.catalog.upper()
                raise UsageError(
                    f"catalog {target.catalog!r} is not known here: give its properties, "
                    "or describe it in .pyiceberg.yaml, or by variables as "
                    f"PYICEBERG_CATALOG__{name}__URI"
                ) from error
        return self._cached


def _property(app: str) -> str:
    return f"gapless.batch {app}"


def _done(table: Table, app: str) -> int | None:
    number = table.properties.get(_property(app))
    return None if number is None else int(number)


def _among(keys: pa.Table) -> BooleanExpression:
    """Return the condition that a row has one of these keys."""
    from pyiceberg import expressions

    make: Any = expressions
    if keys.num_columns == 1:
        only: BooleanExpression = make.In(keys.column_names[0], keys[0].to_pylist())
        return only
    # Of the columns, the one with the most values is asked for by lists: a condition for each key
    # would take seconds for a thousand.
    *few, many = sorted(keys.column_names, key=lambda name: len(keys[name].unique()))
    lists = keys.group_by(few).aggregate([(many, "list")]).to_pylist()
    each = [
        make.And(
            *(make.EqualTo(name, row[name]) for name in few), make.In(many, row[f"{many}_list"])
        )
        for row in lists
    ]
    some: BooleanExpression = make.Or(*each) if len(each) > 1 else each[0]
    return some


def _near(keys: pa.Table) -> BooleanExpression:
    """Return a condition that rows with one of these keys meet, and that files are chosen by."""
    import pyarrow as pa
    import pyarrow.compute as pc
    from pyiceberg import expressions

    make: Any = expressions
    if keys.num_columns == 1 and keys.num_rows <= _FEW_KEYS:
        return _among(keys)
    found: BooleanExpression = make.AlwaysTrue()
    for name in keys.column_names:
        if pa.types.is_string(keys[name].type) or pa.types.is_integer(keys[name].type):
            low, high = pc.min_max(keys[name]).as_py().values()
            inside = make.And(make.GreaterThanOrEqual(name, low), make.LessThanOrEqual(name, high))
            found = make.And(found, inside)
    return found


def _missing(table: Table, schema: pa.Schema, target: TargetSpec) -> list[str]:
    """Return the columns to add to the table. Raises UsageError for rows that do not fit."""
    there = {field.name: _text(field.type) for field in table.schema().as_arrow()}
    missing = [name for name in schema.names if name not in there]
    if missing and not target.adds_columns:
        raise UsageError(
            f"it has no column {missing[0]!r} ({_text(schema.field(missing[0]).type)}), but "
            f"{', '.join(there)}: let the target add it (addColumns: true), or leave it out in the "
            "transform"
        )
    for field in schema:
        kind = _text(field.type)
        if there.get(field.name, kind) != kind:
            raise UsageError(
                f"column {field.name!r} is {there[field.name]} in the table, but {kind} in these "
                "rows: cast it in the transform"
            )
    parts = [str(each) for each in _parts(table)]
    if parts != list(target.partition_by):
        raise UsageError(
            f"it is partitioned by {', '.join(parts) or 'nothing'}, not by "
            f"{', '.join(target.partition_by) or 'nothing'}: partitionBy has to say the same"
        )
    return missing


def _parts(table: Table) -> list[str]:
    schema = table.schema()
    return [
        schema.find_field(field.source_id).name
        if str(field.transform) == "identity"
        else f"{field.transform}({schema.find_field(field.source_id).name})"
        for field in table.spec().fields
    ]


def _require_parts(rows: pa.Table, names: Sequence[str]) -> None:
    for name in names:
        if name not in rows.column_names:
            raise UsageError(
                f"partitionBy: there is no column {name!r}, but {', '.join(rows.column_names)}"
            )


def _text(kind: Any) -> str:
    """Return a type of Arrow as text, without the width of its offsets."""
    return str(kind).replace("large_", "").replace(" not null", "")


def _is_of_iceberg(error: Exception) -> bool:
    """Tell whether an error comes of the table, its catalog or its files, not of a programme."""
    name = type(error).__module__.partition(".")[0]
    return isinstance(error, OSError | ValueError) or name in ("pyiceberg", "sqlalchemy", "pyarrow")
