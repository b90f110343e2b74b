"""Every action that changes a table or what stands beside it, and what it does to the plain model.

1. An action is done by ``go``, through the ports of a process, for one of two actors: ``who`` is
   0 or 1, and decides which rows it touches. So two actors never mean the same row, but the same
   files, chunks and buckets.
2. ``effects`` says what becomes of the model when an event of a type, of its author, is in the log.
   Events that are not named change no row.
3. ``calls`` names the method of ``Table`` whose work it is, if there is one: an action to add is
   one entry in ``ACTIONS``, and a test fails if a method, a kind of event or of plan has none.
"""

import io
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from tempfile import TemporaryDirectory
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from airflow_provider_segtable.core.errors import InvalidInput
from airflow_provider_segtable.core.indexes.index_state import IndexState
from airflow_provider_segtable.core.log.events import Event
from airflow_provider_segtable.core.log.families.append_events import Adopted, Appended
from airflow_provider_segtable.core.log.families.change_events import RowsChanged
from airflow_provider_segtable.core.log.families.restore_events import VersionRestored
from airflow_provider_segtable.core.log.families.table_events import TableAltered
from airflow_provider_segtable.core.recovery.diagnosis import Severity
from airflow_provider_segtable.core.tables.evolution import (
    AddColumn,
    ColumnChange,
    DropColumn,
    RenameColumn,
    Reorder,
    WidenColumn,
)
from airflow_provider_segtable.core.tables.table_kind import DeletionForm
from airflow_provider_segtable.core.time import DAY_US, Interval
from airflow_provider_segtable.data.adoption.decision import Action as Fate
from airflow_provider_segtable.health.doctor import examine
from airflow_provider_segtable.health.repair import plan_repair, repair
from airflow_provider_segtable.health.verify import verify
from airflow_provider_segtable.library.table import Table as WholeTable
from airflow_provider_segtable.log_store.memory_store import MemoryLogStoreProvider
from airflow_provider_segtable.planning.properties import Retention
from airflow_provider_segtable.ports.log_store import LogContext
from airflow_provider_segtable.services.attempt import in_process
from airflow_provider_segtable.services.cleaning import clean
from airflow_provider_segtable.services.compact_table import compact_by_policy
from airflow_provider_segtable.services.compaction import Ended, PlanResult, compact
from airflow_provider_segtable.services.index_run import run_index
from airflow_provider_segtable.services.planner import plan_table
from airflow_provider_segtable.services.request import request
from airflow_provider_segtable.services.settling import settle
from airflow_provider_segtable.table.adoption import AdoptionRequest, adopt
from airflow_provider_segtable.table.context import TableContext
from airflow_provider_segtable.table.dropping import drop
from airflow_provider_segtable.table.log_store.checkpointing import (
    DELETED,
    begin_epoch,
    commit_cut,
    deleted_column,
    log_schema,
)
from airflow_provider_segtable.table.publishing.publisher import Refused
from airflow_provider_segtable.table.table import Table, create_table
from tests.simulation.pairs.plain_model import (
    AT,
    FIRST_US,
    ID,
    Column,
    Effect,
    History,
    Plain,
    Values,
    time_of,
)
from tests.support.clock import FakeClock

ACTORS = 9
"""How many there are at most in one play: one that is held, and those that run meanwhile."""
OWN = tuple((3 * who + 1, 3 * who + 2, 3 * who + 3) for who in range(ACTORS))
"""Rows that are there, by actor: one to delete, one to update, one to merge."""
GONE = tuple(range(3 * ACTORS + 1, 4 * ACTORS + 1))
"""Rows that were deleted, which a merge of each actor brings back."""
FORMATS = ("delta", "iceberg")
TAGGED, COMPACTED, BEFORE = "before", "compacted", "early"
"""Tags of a version without the deletes and of a compacted one, and a consumer."""
FIRST_ROWS = 1
"""The version of the first rows."""
LATE = "late"
"""An index that was requested, and is not built."""
SECOND_DAY = Interval(FIRST_US + DAY_US, FIRST_US + 2 * DAY_US)


class PlanFailed(Exception):
    """A plan ended in failure."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Action:
    """One action; one that ``reads`` alone is held before what it reads, not what it writes."""

    go: Callable[[TableContext, int], object]
    calls: str = ""
    effects: Mapping[type, Effect] = field(default_factory=dict)
    reads: bool = False


# ---- rows ---------------------------------------------------------------------------------------


def values_of(ports: TableContext, numbers: Mapping[int, int | None]) -> pa.Table:
    """Return rows of the first columns, with the present types; each with a value of ``n``."""
    state = ports.log.load()
    schema = Table(ports).snapshot().schema if state.table.kind.deletion is not _GROUPS else INPUT
    known = {
        "at": [time_of(each) for each in numbers],
        "id": [*numbers],
        "n": [*numbers.values()],
        "z": [None for _ in numbers],
        "d": [None for _ in numbers],
    }
    names = [name for name in schema.names if name in known]
    return pa.table([pa.array(known[n], schema.field(n).type) for n in names], names)


_GROUPS = DeletionForm.PREDICATE
INPUT = pa.schema([("at", pa.timestamp("us", "UTC")), ("id", pa.int64()), ("n", pa.int64())])


def ids(model: Plain) -> dict[str, int]:
    """Return the ids of columns by their names."""
    return {column.name: column.id for column in model.columns}


def given(model: Plain, numbers: Mapping[int, int | None]) -> dict[int, Values]:
    """Return new rows, with all the first columns that the table has."""
    known = ids(model)
    if "many" in known:
        return {each: _added(model, each, n) for each, n in numbers.items()}
    return {
        each: {known["n"]: n, known.get("d", -1): None} if "d" in known else {known["n"]: n}
        for each, n in numbers.items()
    }


def _added(model: Plain, number: int, n: int | None) -> Values:
    known, before = ids(model), model.rows.get(number, {})
    many, total = known["many"], known["total"]
    return {many: before.get(many, 0) + 1, total: before.get(total, 0) + (n or 0)}


def new_rows(who: int) -> dict[int, int | None]:
    """Return the rows that an actor appends."""
    return {100 + 10 * who + each: each for each in range(3)}


def _append(ports: TableContext, who: int) -> object:
    return Table(ports).append(values_of(ports, new_rows(who)))


def _appended(history: History, event: Event, who: int) -> Plain:
    model = history[event.n - 1]
    return model.with_rows(given(model, new_rows(who)))


AGAIN = {700 + each: each for each in range(3)}
"""Rows that each actor appends under the same commit id: they are there once."""


def _append_once(ports: TableContext, who: int) -> object:  # noqa: ARG001 - all want the same
    table, rows = Table(ports), values_of(ports, AGAIN)
    keyed = table.state().table.kind.rules is not None
    return (table.upsert if keyed else table.append)(rows, commit_id="once")


def _appended_once(history: History, event: Event, who: int) -> Plain:  # noqa: ARG001
    return written(history[event.n - 1], AGAIN)


def ingested_rows(who: int) -> dict[int, int | None]:
    """Return the rows of an actor's file."""
    return {600 + 10 * who + each: each for each in range(3)}


def _ingest(ports: TableContext, who: int) -> None:
    with TemporaryDirectory() as place:
        path = f"{place}/rows.parquet"
        pq.write_table(values_of(ports, ingested_rows(who)), path)
        WholeTable(ports).ingest(path)


def _ingested(history: History, event: Event, who: int) -> Plain:
    return written(history[event.n - 1], ingested_rows(who))


LANDED = pa.schema(
    [
        pa.field("at", pa.timestamp("us", "UTC")),
        pa.field("id", pa.int64()),
        pa.field("n", pa.int32()),
        pa.field("z", pa.string()),
    ]
)
"""The columns that the table was created with, as another program writes them: without ids."""


def landed_files(who: int) -> dict[str, dict[int, int | None]]:
    """Return the rows of an actor's files by their paths: one file a day, each within an hour."""
    first = 800 + 10 * who
    return {
        f"landed/{who}-first.parquet": {first: 0, first + 2: 2},
        f"landed/{who}-second.parquet": {first + 1: 1, first + 3: None},
    }


FOUNDER = ACTORS
"""The number of the author whose files a table has before a play."""
_LANDED = {path: rows for who in range(FOUNDER + 1) for path, rows in landed_files(who).items()}


def adopt_landed(ports: TableContext, who: int) -> None:
    """Put two files beside the log, and adopt all that are there; the second one has no ``z``."""
    ports.log.load()
    for path, rows in landed_files(who).items():
        ports.storage.create(path, _landed(rows, full=path.endswith("-first.parquet")))
    ports.log.load()  # fails without the table, which an adoption would create
    done = adopt(ports, AdoptionRequest())
    for decision in done.decisions:
        if decision.facts.path in landed_files(who) and decision.action in (Fate.COPY, Fate.REFUSE):
            raise InvalidInput(f"{decision.facts.path}: {decision.reason}")


def _landed(rows: Mapping[int, int | None], *, full: bool) -> bytes:
    known = {
        "at": [time_of(each) for each in rows],
        "id": [*rows],
        "n": [*rows.values()],
        "z": [None for _ in rows],
    }
    table, stream = pa.table(known, LANDED), io.BytesIO()
    pq.write_table(table if full else table.drop_columns(["z"]), stream)
    return stream.getvalue()


def _adopted(history: History, event: Event, who: int) -> Plain:  # noqa: ARG001
    """Insert the rows of the files that the event names: some may be other actors' files."""
    model, action = history[event.n - 1], event.action
    assert isinstance(action, Adopted)
    return with_landed(model, [segment.path for segment in action.segments])


def with_landed(model: Plain, paths: Iterable[str]) -> Plain:
    """Return the model after files were adopted; columns that were added since have defaults."""
    (n,) = (column.id for column in model.schemas[0] if column.name == "n")
    rows = {number: value for path in paths for number, value in _LANDED[path].items()}
    return model.with_rows({number: {n: value} for number, value in rows.items()})


def upserts(who: int) -> dict[int, int | None]:
    """Return the rows that an actor upserts: one that is there, and two that are new."""
    return {OWN[who][1]: 200 + who, 200 + 2 * who: 1, 201 + 2 * who: 2}


def _upsert(ports: TableContext, who: int) -> object:
    rows = values_of(ports, {**upserts(who), OWN[who][0]: None})
    gone = pa.array([False] * (rows.num_rows - 1) + [True])
    return Table(ports).upsert(rows.append_column("gone", gone), deleted="gone")


def written(model: Plain, numbers: Mapping[int, int | None]) -> Plain:
    """Return the model after rows of the first columns were appended or upserted."""
    return _recorded(model, given(model, numbers))


def _recorded(model: Plain, new: Mapping[int, Values]) -> Plain:
    """Return the model after records: with ``partial_update`` a null sets nothing."""
    if model.partial_update:
        new = {
            each: {**model.rows.get(each, {}), **{k: v for k, v in row.items() if v is not None}}
            for each, row in new.items()
        }
    return model.with_rows(new)


def _upserted(history: History, event: Event, who: int) -> Plain:
    model = history[event.n - 1]
    return written(model, upserts(who)).without(lambda each: each == OWN[who][0])


def _move(ports: TableContext, who: int) -> object:
    """Write a row that is there at a time of the other day; an index of records follows it."""
    if not any(index.available_n for index in ports.log.load().indexes.values() if _follows(index)):
        raise InvalidInput("nothing follows keys from chunk to chunk")
    rows = values_of(ports, {OWN[who][1]: 90})
    times = pa.array([moved(OWN[who][1])], rows.schema.field("at").type)
    at = rows.schema.get_field_index("at")
    return Table(ports).upsert(rows.set_column(at, rows.schema.field("at"), times))


def _follows(index: IndexState) -> bool:
    return not index.definition.kind.about_files


def moved(number: int) -> int:
    """Return the time to which a row moves."""
    return time_of(number) + (DAY_US if time_of(number) < SECOND_DAY.start else -DAY_US)


def _moved(history: History, event: Event, who: int) -> Plain:
    model, number = history[event.n - 1], OWN[who][1]
    after = written(model, {number: 90})
    return after.with_rows({number: {**after.rows[number], AT: moved(number)}})


def _delete(ports: TableContext, who: int) -> object:
    return Table(ports).delete(f"id = {OWN[who][0]}")


def _deleted(history: History, event: Event, who: int) -> Plain:
    model = history[event.n - 1]
    if missed(model, event, OWN[who][0]):
        return model
    return model.without(lambda each: each == OWN[who][0])


def missed(model: Plain, event: Event, number: int) -> bool:
    """Return whether a change missed a row that was brought back after the version it looked at.

    It may, as it may miss rows that are appended after it; but only if it changed nothing then. A
    change of a rollup table is a condition, which holds for all that is there when it lands.
    """
    action = event.action
    if not isinstance(action, RowsChanged) or action.predicate is not None:
        return False
    return model.loaded.get(number, 0) > action.seen and not action.deleted


def _merge_away(ports: TableContext, who: int) -> object:
    """Delete a row by a merge with its key."""
    rows = values_of(ports, {OWN[who][2]: None}).select(["at", "id"])
    return Table(ports).merge(rows, on=["id"], matched="delete", unmatched="ignore")


def _merged_away(history: History, event: Event, who: int) -> Plain:
    model = history[event.n - 1]
    if missed(model, event, OWN[who][2]):
        return model
    return model.without(lambda each: each == OWN[who][2])


def _update(ports: TableContext, who: int) -> object:
    return Table(ports).update({"n": 50 + who}, f"id = {OWN[who][1]}")


def _updated(history: History, event: Event, who: int) -> Plain:
    model, number = history[event.n - 1], OWN[who][1]
    if number not in model.rows or missed(model, event, number):
        return model
    return model.with_rows({number: {**model.rows[number], ids(model)["n"]: 50 + who}})


def merged_rows(who: int, *, keyed: bool) -> dict[int, int | None]:
    """Return what an actor merges: a row that is there, a new one, and a key that was deleted.

    The last one only by a primary key: elsewhere a restore and a merge may both bring a row.
    """
    return {OWN[who][2]: 60, 300 + who: 62, **({GONE[who]: 61} if keyed else {})}


def _merge(ports: TableContext, who: int) -> object:
    keyed = ports.log.load().table.kind.rules is not None
    rows = values_of(ports, merged_rows(who, keyed=keyed))
    return Table(ports).merge(rows.select(["at", "id", "n"]), on=["id"])


def _merged(history: History, event: Event, who: int) -> Plain:
    model = history[event.n - 1]
    known = ids(model)
    new: dict[int, Values] = {}
    for number, n in merged_rows(who, keyed=model.keyed).items():
        there = number in model.rows
        filled = model.rows.get(number, {}) if there else {}  # the rest has its defaults
        new[number] = {**filled, known["n"]: n}
    return model.with_rows(new)


def _overwrite(ports: TableContext, who: int) -> object:
    rows = values_of(ports, {401 + 2 * who: 51})
    return Table(ports).overwrite(rows, interval=SECOND_DAY)


def _overwritten(history: History, event: Event, who: int) -> Plain:
    model, action = history[event.n - 1], event.action
    assert isinstance(action, RowsChanged)
    n = looked_at(history, event)
    found = {each for each in history[n].rows if SECOND_DAY.holds(time_of(each))}
    there = {each for each in model.rows if SECOND_DAY.holds(time_of(each))}
    gone = {each for each in there if each in found or model.loaded.get(each, 0) > n}
    left = model.without(lambda each: each in gone)
    return left.with_rows(given(model, {401 + 2 * who: 51}), event.n)


def looked_at(history: History, event: Event) -> int:
    """Return the version that an overwrite looked at, by the numbers of rows that it found.

    Of a rollup table it is the newest one, because it has a condition instead of rows.
    """
    model, action = history[event.n - 1], event.action
    assert isinstance(action, RowsChanged)
    if action.predicate:
        return event.n - 1
    for n in range(action.seen, 0, -1):
        found = {each for each in history[n].rows if SECOND_DAY.holds(time_of(each))}
        if (action.matched, action.deleted) == (len(found), len(found & model.rows.keys())):
            return n
    raise AssertionError(f"no version explains {action.matched} rows, {action.deleted} gone")


# ---- services -----------------------------------------------------------------------------------


def told(results: tuple[PlanResult, ...]) -> None:
    """Raise what a plan failed with."""
    for result in results:
        if result.ended is Ended.FAILED:
            raise PlanFailed(result.message)


def _compact(kind: str, **options: Any) -> Callable[[TableContext, int], object]:
    def go(ports: TableContext, who: int) -> None:  # noqa: ARG001 - both want the same
        asked = request(ports, kind, **options)
        told(compact(ports, [known.plan.id for known in asked], in_process(ports.files)))

    return go


def _by_policy(ports: TableContext, who: int) -> None:  # noqa: ARG001 - both want the same
    execute = in_process(ports.files)
    told(compact_by_policy(ports, lambda own, ids: compact(own, ids, execute)))


def _build(ports: TableContext, who: int) -> None:  # noqa: ARG001 - both want the same
    done = run_index(ports, LATE, in_process(ports.files))
    if done.ended is Ended.FAILED:
        raise PlanFailed(done.message)


def _create_index(ports: TableContext, who: int) -> None:
    Table(ports).create_index(f"new{who}", "column_stats", ["id"])
    told_run = run_index(ports, f"new{who}", in_process(ports.files))
    if told_run.ended is Ended.FAILED:
        raise PlanFailed(told_run.message)


def _clean(ports: TableContext, who: int) -> object:  # noqa: ARG001 - both want the same
    return clean(ports, retention=Retention(hours=0, versions=1, consumer_hours=0))


def _repair(ports: TableContext, who: int) -> None:  # noqa: ARG001 - both want the same
    plan = plan_repair(ports)
    if plan.needed:
        repair(ports, plan)


def _publish(ports: TableContext, who: int) -> None:  # noqa: ARG001 - both want the same
    for outcome in Table(ports).publish(formats=FORMATS):
        if isinstance(outcome, Refused) and "not rolled up" not in outcome.reason:
            raise InvalidInput(outcome.reason)


def _publish_anew(ports: TableContext, who: int) -> None:  # noqa: ARG001 - both want the same
    Table(ports).publish(formats=FORMATS, full=True)  # it may be refused


def _unpublish(ports: TableContext, who: int) -> None:  # noqa: ARG001 - both want the same
    for name in FORMATS:
        Table(ports).unpublish(name)


def _log_rows(ports: TableContext, who: int) -> None:
    """Take a bucket, send records, and make a checkpoint."""
    state = ports.log.load()
    schema = log_schema(state)
    store = MemoryLogStoreProvider().create(
        LogContext(table=state.table.table_id, schema=schema, buckets=(0,))
    )
    store.start()
    begun = begin_epoch(ports, [0], owner=ports.author)
    end = begun.ends[0]
    writer = store.client().writer(0, epoch=begun.epoch, committed=end)
    rows = values_of(ports, new_rows(who)).to_pydict()
    if DELETED in schema.names:
        rows[DELETED] = [False] * 3
    full = {name: rows.get(name, [None] * 3) for name in schema.names}
    writer.append(pa.RecordBatch.from_pydict(full, schema), wait_s=0)
    cut = store.checkpoint()
    commit_cut(ports, cut, deleted=deleted_column(state), columns=state)
    store.committed(cut)


def _logged(history: History, event: Event, who: int) -> Plain:
    model = history[event.n - 1]
    new = {
        each: {**nulls(model, event), **row} for each, row in given(model, new_rows(who)).items()
    }
    return _recorded(model, new)


def nulls(model: Plain, event: Event) -> Values:
    """Return nulls in all columns of the files that an event brought, but for those of the key."""
    return dict.fromkeys(column.id for column in columns_of(model, event) if column.id > ID)


def columns_of(model: Plain, event: Event) -> tuple[Column, ...]:
    """Return the columns of the files that an event brought; the table may lack some by now."""
    assert isinstance(event.action, Appended | RowsChanged)
    (number,) = {segment.schema for segment in event.action.segments}
    return model.schemas[number]


# ---- definitions --------------------------------------------------------------------------------


def _alter(*changes: ColumnChange) -> Callable[[TableContext, int], object]:
    return lambda ports, _: Table(ports).alter(columns=changes)


def altered(*changes: ColumnChange) -> Effect:
    """Return the effect of an alteration."""

    def effect(history: History, event: Event, who: int) -> Plain:  # noqa: ARG001
        model = history[event.n - 1]
        columns = [*model.columns]
        new = 1 + max(column.id for some in model.schemas for column in some)
        for change in changes:
            match change:
                case AddColumn(name=name, default=default):
                    columns.append(Column(id=new, name=name, default=default and int(default)))
                case DropColumn(name=name):
                    columns = [column for column in columns if column.name != name]
                case RenameColumn(name=name, new=title):
                    columns = [replace(c, name=title) if c.name == name else c for c in columns]
        return replace(model, schemas=(*model.schemas, tuple(columns)))

    return effect


def _add_and_write(ports: TableContext, who: int) -> None:
    """Add a column, and write rows with values of it: a new one, and one that is there."""
    Table(ports).alter(columns=[AddColumn(name=f"e{who}", type="int64", default="9")])
    model_keyed = ports.log.load().table.kind.rules is not None
    numbers: dict[int, int | None] = {500 + who: 70}
    if model_keyed:
        numbers[OWN[who][1]] = 71
    rows = values_of(ports, numbers)
    rows = rows.append_column(f"e{who}", pa.array([*numbers], pa.int64()))
    table = Table(ports)
    (table.upsert if model_keyed else table.append)(rows)


def _written_with(history: History, event: Event, who: int) -> Plain:
    model = history[event.n - 1]
    numbers: dict[int, int | None] = {500 + who: 70}
    if model.keyed:
        numbers[OWN[who][1]] = 71
    (column,) = (each.id for each in columns_of(model, event) if each.name == f"e{who}")
    new = {each: {**row, column: each} for each, row in given(model, numbers).items()}
    return _recorded(model, new)


def _properties(ports: TableContext, who: int) -> object:
    wanted = {"compaction.clustering": "id", "publish.delta": "on"} if who else {}
    return Table(ports).alter(set={"compaction.target_size": str(1_000_000 + who), **wanted})


def _restore(tag: str) -> Callable[[TableContext, int], object]:
    return lambda ports, _: Table(ports).restore(tag=tag)


def _restore_columns(ports: TableContext, who: int) -> object:  # noqa: ARG001 - all want the same
    """Restore the version of the first rows, which lacks a column, with its columns."""
    return Table(ports).restore(version=FIRST_ROWS, columns=True)


def _columns_of_then(history: History, event: Event, who: int) -> Plain:  # noqa: ARG001
    model = history[event.n - 1]
    return replace(model, schemas=(*model.schemas, history[FIRST_ROWS].columns))


def _restored(history: History, event: Event, who: int) -> Plain:  # noqa: ARG001
    action = event.action
    assert isinstance(action, VersionRestored)
    model, then = history[event.n - 1], history[action.version]
    back = {
        number: event.n
        for number, row in then.rows.items()
        if model.rows.get(number) != row or number in model.loaded
    }
    return replace(model, rows=then.rows, loaded={**model.loaded, **back})


def _verify(ports: TableContext, who: int) -> None:  # noqa: ARG001 - both want the same
    """Verify all that is kept: whatever others do meanwhile is no damage."""
    found = verify(ports, deep=True, all_versions=True, threads=1)
    assert found.sound, f"verify: {found.findings}"


def _examine(ports: TableContext, who: int) -> None:  # noqa: ARG001 - both want the same
    """Ask the doctor: others at work are no reason for an alarm."""
    found = [each for each in examine(ports).findings if each.severity is Severity.CRITICAL]
    assert not found, f"doctor: {found}"


@dataclass(frozen=True, slots=True)
class Read:
    """Rows that were read, and the model of those that were asked for."""

    rows: pa.Table
    of: Callable[[Plain], Plain]


def _read_all(ports: TableContext, who: int) -> list[Read]:
    """Read all rows of a version, and some of one."""
    table, least = Table(ports), OWN[who][0]
    rolls = table.state().table.kind.deletion is _GROUPS
    some = table.scan(where=f"id >= {least}", interval=SECOND_DAY, rolled_up=rolls).to_arrow()

    def asked(model: Plain) -> Plain:
        times = {each: values.get(AT, time_of(each)) for each, values in model.rows.items()}
        return model.without(lambda each: each < least or not SECOND_DAY.holds(times[each]))

    every = table.scan(rolled_up=rolls).to_arrow()
    return [Read(some, asked), Read(every, lambda model: model)]


def _drop(ports: TableContext, who: int) -> object:  # noqa: ARG001 - both want the same
    return drop(ports, force=True)


def _create_anew(ports: TableContext, who: int) -> None:
    definition = ports.log.load().table
    drop(ports, force=True)
    anew = replace(ports, author=f"{ports.author} anew")
    create_table(anew, replace(definition, table_id=f"another-{who}"))
    assert isinstance(ports.clock, FakeClock)


def _tag(ports: TableContext, who: int) -> None:
    Table(ports).tag(f"tag{who}")


def _untag(ports: TableContext, who: int) -> None:  # noqa: ARG001 - both want the same
    Table(ports).untag(TAGGED)


def _advance(ports: TableContext, who: int) -> None:
    Table(ports).advance_consumer(f"consumer{who}", Table(ports).state().n)


def _drop_consumer(ports: TableContext, who: int) -> None:  # noqa: ARG001 - both want the same
    Table(ports).drop_consumer(BEFORE)


_CHANGED: Callable[[Effect], Mapping[type, Effect]] = lambda effect: {  # noqa: E731
    Appended: effect,
    RowsChanged: effect,
}
_READD = (DropColumn(name="z"), AddColumn(name="z", type="int64", default="1"))
_ADD = AddColumn(name="f", type="int32", default="5")
_RENAME, _WIDEN = RenameColumn(name="z", new="zz"), WidenColumn(name="n", type="int64")
_REORDER = Reorder(names=("n", "id", "at"))
_FINER, _COARSER = {"granularity": "hour"}, {"granularity": "week"}

ACTIONS: Mapping[str, Action] = {
    "append": Action(go=_append, calls="append", effects={Appended: _appended}),
    "append once": Action(go=_append_once, effects={Appended: _appended_once}),
    "ingest": Action(go=_ingest, calls="ingest", effects={Appended: _ingested}),
    "adopt": Action(go=adopt_landed, calls="adopt", effects={Adopted: _adopted}),
    "upsert": Action(go=_upsert, calls="upsert", effects={Appended: _upserted}),
    "move a key": Action(go=_move, effects={Appended: _moved}),
    "delete": Action(go=_delete, calls="delete", effects=_CHANGED(_deleted)),
    "update": Action(go=_update, calls="update", effects=_CHANGED(_updated)),
    "merge": Action(go=_merge, calls="merge", effects=_CHANGED(_merged)),
    "merge away": Action(go=_merge_away, effects=_CHANGED(_merged_away)),
    "overwrite": Action(go=_overwrite, calls="overwrite", effects={RowsChanged: _overwritten}),
    "minor": Action(go=_compact("minor"), calls="compact"),
    "semi-major": Action(go=_compact("semi-major")),
    "major": Action(go=_compact("major")),
    "semi-major by an order": Action(go=_compact("semi-major", clustering="n")),
    "major by an order": Action(go=_compact("major", clustering="id")),
    "major to hours": Action(go=_compact("major", **_FINER)),
    "major to weeks": Action(go=_compact("major", **_COARSER)),
    "major to more buckets": Action(go=_compact("major", buckets=2)),
    "compact by policy": Action(go=_by_policy),
    "plan": Action(go=lambda ports, _: plan_table(ports)),
    "create an index": Action(go=_create_index, calls="create_index"),
    "build an index": Action(go=_build, calls="run_index"),
    "rebuild an index": Action(
        go=lambda ports, _: Table(ports).rebuild_index(LATE), calls="rebuild_index"
    ),
    "drop an index": Action(go=lambda ports, _: Table(ports).drop_index(LATE), calls="drop_index"),
    "add a column": Action(go=_alter(_ADD), calls="alter", effects={TableAltered: altered(_ADD)}),
    "add a column and write": Action(
        go=_add_and_write,
        effects={
            TableAltered: lambda history, event, who: altered(
                AddColumn(name=f"e{who}", type="int64", default="9")
            )(history, event, who),
            Appended: _written_with,
        },
    ),
    "reorder columns": Action(go=_alter(_REORDER), effects={TableAltered: altered(_REORDER)}),
    "drop a column": Action(
        go=_alter(DropColumn(name="z")), effects={TableAltered: altered(DropColumn(name="z"))}
    ),
    "drop and add a column": Action(go=_alter(*_READD), effects={TableAltered: altered(*_READD)}),
    "rename a column": Action(go=_alter(_RENAME), effects={TableAltered: altered(_RENAME)}),
    "widen a column": Action(go=_alter(_WIDEN), effects={TableAltered: altered(_WIDEN)}),
    "set properties": Action(go=_properties),
    "restore": Action(go=_restore(TAGGED), calls="restore", effects={VersionRestored: _restored}),
    "restore what was compacted": Action(
        go=_restore(COMPACTED), effects={VersionRestored: _restored}
    ),
    "restore with its columns": Action(
        go=_restore_columns,
        effects={VersionRestored: _restored, TableAltered: _columns_of_then},
    ),
    "repair": Action(go=_repair),
    "verify": Action(go=_verify, calls="verify", reads=True),
    "ask the doctor": Action(go=_examine, reads=True),
    "read": Action(go=_read_all, calls="scan", reads=True),
    "clean": Action(go=_clean, calls="clean"),
    "settle": Action(go=lambda ports, _: settle(ports), calls="settle"),
    "drop": Action(go=_drop, calls="drop"),
    "drop and create": Action(go=_create_anew, calls="create"),
    "tag": Action(go=_tag, calls="tag"),
    "untag": Action(go=_untag, calls="untag"),
    "advance a consumer": Action(go=_advance, calls="advance_consumer"),
    "drop a consumer": Action(go=_drop_consumer, calls="drop_consumer"),
    "publish": Action(go=_publish, calls="publish"),
    "publish anew": Action(go=_publish_anew),
    "unpublish": Action(go=_unpublish, calls="unpublish"),
    "write by the log store": Action(go=_log_rows, calls="log_writer", effects={Appended: _logged}),
}
