"""Find the winning record of each key in the whole table, and the corrections of the others.

Decision: which record of each key wins, and which ones need a correction.

1. A key's records lie in *places*, the time chunks of their event times. In each place the highest
   record is on top (``core.tables.merge_rules``); it is live unless it deletes the key.
2. Of all records of a key the highest one *wins*, as if the table were one chunk.
3. A live record on top of any other place *loses*. It is corrected by a tombstone in its place,
   which is higher than the loser and lower than the winner (``correction_orders``). So a compaction
   that joins the places, or merges any of the files in any order, keeps the winner.
4. Entries outlive their records, as those of rows that a restore took back. So an entry that is not
   *sure* hides none below it in its place: any live one that is outranked from another place may
   lose. A correction of one that does not is below the winner, and hides nothing.
5. Records are equal only if they are the same one, so the decision is the same in every process.
6. The rows of corrections are tombstones of keys in the places of losers, in the table's columns
   (``correction_rows``).

Records of one write:

7. A write keeps one record of each key: the highest, wherever their time chunks are. If it had
   records of a key in several time chunks, only their random tokens would decide.
8. Of equal ordering values the later row is higher, as in one file (``data.keyed.keyed_rows``).

Entries of the index ``record_index``: an entry about each record of a file.

9. The root of a record identifies the log file that it came from, and with that its order
   (``data.keyed.group_reader``). So the entry is the same, whichever file the record is read from.
10. No entry names a file, so entries do not show whether a file is known, or its contents.
"""

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from airflow_provider_segtable.core.dataclass import dataclass
from airflow_provider_segtable.core.indexes.index_kind import START
from airflow_provider_segtable.core.indexes.record_index import (
    DELETED,
    INSTANT,
    LOG_VERSION,
    ORDERING,
    TOKEN,
    RecordIndex,
    key_column,
    rules_of,
)
from airflow_provider_segtable.core.predicate import Predicate
from airflow_provider_segtable.core.segment import Segment
from airflow_provider_segtable.core.tables.definition import TableDefinition
from airflow_provider_segtable.core.tables.merge_rules import DELETE, OP, ROOT_PARTITION, MergeRules
from airflow_provider_segtable.core.time import Interval, Layout
from airflow_provider_segtable.data.arrow_schema import to_arrow
from airflow_provider_segtable.data.indexes.file_rows import FileRows
from airflow_provider_segtable.data.keyed.key_groups import codes_of
from airflow_provider_segtable.data.keyed.keyed_rows import check_keys
from airflow_provider_segtable.data.keyed.log_files import Records
from airflow_provider_segtable.data.keyed.merging import key_codes
from airflow_provider_segtable.data.rows import instants, is_date, numbered_chunks
from airflow_provider_segtable.data.sort_keys import Indices, whole

# Decision between the records of a key
LOWEST = "0" * 16
"""A write token that is as low as any."""
_LEAST = np.iinfo(np.int64).min


@dataclass(frozen=True, slots=True)
class Decision:
    """The winners and losers among some entries, by their row numbers.

    Attributes:
        winner_of: of each entry, the entry that wins its key.
        losers: the entries to correct: live, on top of their places, and not the winners.
        tops: the highest entry of each key and place.
    """

    winner_of: Indices
    losers: Indices
    tops: Indices

    @property
    def over(self) -> Indices:
        """Return of each loser the entry that wins."""
        return self.winner_of[self.losers]


@dataclass(frozen=True, slots=True)
class Orders:
    """The orders of corrections: of each, its instant, log version and the start of its token."""

    instants: Indices
    versions: Indices
    tokens: Sequence[str]


def places_of(entries: pa.Table, layout: Layout) -> tuple[Indices, list[Interval]]:
    """Return the number of each entry's time chunk, and the chunks by their numbers."""
    return numbered_chunks(_numbers(entries, START), layout)


def decided(
    entries: pa.Table,
    places: Indices,
    key: Sequence[str],
    sure: npt.NDArray[np.bool_] | None = None,
) -> Decision:
    """Decide which entries win and which lose.

    Args:
        entries: entries about different records; all that are known of a key.
        places: the number of each entry's place.
        key: the columns of the key.
        sure: which entries are about records that are there; by default all (rule 4).
    """
    count = entries.num_rows
    if not count:
        return Decision(*(np.empty(0, np.int64) for _ in range(3)))
    keys, ranks = key_codes(entries, MergeRules(key=tuple(key))).rows, _ranks(entries)
    order = np.lexsort((ranks, keys))
    last = _lasts(keys[order])
    winner_of = np.empty(count, np.int64)
    winner_of[order] = order[last][np.cumsum(np.append(0, last[:-1]))]
    live = ~np.asarray(whole(entries.column(DELETED)).to_numpy(zero_copy_only=False))
    if sure is None:
        top = _tops(keys, places, ranks)
        loses = live[top] & (places[top] != places[winner_of[top]])
        return Decision(winner_of, np.sort(top[loses]), top)
    return Decision(winner_of, *_doubtful_losers(keys, places, ranks, live, sure))


def _doubtful_losers(
    keys: npt.NDArray[np.uint64],
    places: Indices,
    ranks: npt.NDArray[np.uint64],
    live: npt.NDArray[np.bool_],
    sure: npt.NDArray[np.bool_],
) -> tuple[Indices, Indices]:
    """Return one loser of each place that may have one, where entries outlive their records.

    And the top of each place.
    """
    order = np.lexsort((ranks, places, keys))
    ends = _lasts(keys[order]) | _lasts(places[order])
    group = np.cumsum(np.append(0, ends[:-1]))
    top = order[ends]
    least = np.zeros(len(top), np.int64)  # the row of each place below which all are hidden
    np.maximum.at(least, group, np.where(sure[order], np.arange(len(order)), 0))
    above = _highest_elsewhere(keys[top], ranks[top])
    outranked = (above[group] >= 0) & (ranks[top][above[group]] > ranks[order])
    loses = np.flatnonzero(live[order] & outranked & (np.arange(len(order)) >= least[group]))
    return np.sort(order[loses[_lasts(group[loses])]]), top


def _highest_elsewhere(
    keys: npt.NDArray[np.uint64], ranks: npt.NDArray[np.uint64]
) -> npt.NDArray[np.int64]:
    """Return of each place the other place of its key with the highest top; -1 if none is."""
    order = np.lexsort((ranks, keys))
    last = _lasts(keys[order])
    first = order[last][np.cumsum(np.append(0, last[:-1]))]
    found = np.empty(len(keys), np.int64)
    found[order] = first
    second = np.append(-1, order[:-1])
    second[np.append(True, keys[order][1:] != keys[order][:-1])] = -1
    found[order[last]] = second[last]
    return found


def tops(entries: pa.Table, places: Indices, key: Sequence[str]) -> Indices:
    """Return the highest entry of each key and place; arguments as of ``decided``."""
    return _tops(key_codes(entries, MergeRules(key=tuple(key))).rows, places, _ranks(entries))


def _tops(keys: npt.NDArray[np.uint64], places: Indices, ranks: npt.NDArray[np.uint64]) -> Indices:
    order = np.lexsort((ranks, places, keys))
    return order[_lasts(keys[order]) | _lasts(places[order])]


def _lasts(values: npt.NDArray[np.generic]) -> npt.NDArray[np.bool_]:
    """Return which rows are the last ones of equal neighbours."""
    lasts = np.ones(len(values), bool)
    lasts[:-1] = values[1:] != values[:-1]
    return lasts


def _ranks(entries: pa.Table) -> npt.NDArray[np.uint64]:
    ordering = (ORDERING,) if ORDERING in entries.column_names else ()
    columns = (*ordering, INSTANT, LOG_VERSION, TOKEN)
    return codes_of([whole(entries.column(name)) for name in columns]).rows


def correction_orders(entries: pa.Table, decision: Decision) -> Orders:
    """Return an order for each loser's correction: above the loser, and below the winner.

    A correction has the winner's ordering value. As few instants as possible are taken, because
    each one is a file in each place: an instant that is later than a loser's and not later than its
    winner's does. Tokens decide only between records of one instant and equal ordering values.
    """
    over, losers = decision.over, decision.losers
    instants, versions = _numbers(entries, INSTANT), _numbers(entries, LOG_VERSION)
    tied = _same_ordering(entries, losers, over)
    twins = tied & (instants[losers] == instants[over])
    low, high = np.where(tied, instants[losers], _LEAST), instants[over]
    found = high.copy()
    found[~twins] = _shared(low[~twins], high[~twins])
    tokens = [LOWEST] * len(losers)
    for at in np.flatnonzero(twins).tolist():
        tokens[at] = below(entries.column(TOKEN)[int(over[at])].as_py())
    return Orders(found, np.where(twins, versions[over], 0), tokens)


def below(token: str) -> str:
    """Return hex digits with which all texts begin that are next below a token."""
    return f"{max(int(token, 16) - 1, 0):0{len(token)}x}"


def _shared(low: Indices, high: Indices) -> Indices:
    """Return for each range above ``low`` and up to ``high`` a number in it; few different ones."""
    found = np.empty(len(high), np.int64)
    left = np.argsort(high, kind="stable")
    while len(left):
        point = high[left[0]]
        inside = low[left] < point
        found[left[inside]] = point
        left = left[~inside]
    return found


def _same_ordering(entries: pa.Table, some: Indices, others: Indices) -> npt.NDArray[np.bool_]:
    if ORDERING not in entries.column_names:
        return np.ones(len(some), bool)
    codes = codes_of([whole(entries.column(ORDERING))]).rows
    return np.asarray(codes[some] == codes[others])


def _numbers(entries: pa.Table, name: str) -> Indices:
    column = whole(entries.column(name))
    plain = column.cast(pa.int64()) if not pa.types.is_int32(column.type) else column
    return np.asarray(plain.to_numpy(zero_copy_only=False), np.int64)


# Rows of corrections
def correction_rows(
    ids: Sequence[int], table: TableDefinition, entries: pa.Table, decision: Decision
) -> pa.Table:
    """Return a row for each loser: its key and event time, the winner's ordering value.

    Args:
        ids: the ids of the key's columns, in its order.
        table: the table.
        entries: the entries that were decided.
        decision: the decision about them.
    """
    rules, losers, over = rules_of(table), pa.array(decision.losers), pa.array(decision.over)
    schema = to_arrow(table.schema)
    found = {
        name: entries.column(key_column(number)).take(losers)
        for number, name in zip(ids, rules.key, strict=True)
    }
    if rules.ordering:
        found[rules.ordering] = entries.column(ORDERING).take(over)
    time = schema.field(table.time_column)
    found.setdefault(time.name, _times(entries.column(START).take(losers), time.type))
    columns = [
        found[field.name] if field.name in found else pa.nulls(len(losers), field.type)
        for field in schema
    ]
    return pa.table(columns, schema=schema)


def _times(times: pa.ChunkedArray, kind: pa.DataType) -> pa.ChunkedArray:
    """Return instants as event times, never later than they are."""
    plain = times.cast(pa.timestamp("us"))
    if is_date(kind):
        return plain.cast(kind, safe=False)
    return plain.cast(pa.timestamp(kind.unit), safe=False).cast(kind)


# Records of one write
def one_each(records: Records, rules: MergeRules) -> Records:
    """Return the highest record of each key, in their order.

    Raises:
        InvalidInput: a key is null.
    """
    rows = records.rows
    check_keys(rows, rules.key)
    keys, count = key_codes(rows, rules).rows, rows.num_rows
    values = np.zeros(count, np.uint64)
    if rules.ordering:
        values = codes_of([whole(rows.column(rules.ordering))]).rows
    order = np.lexsort((np.arange(count), values, keys))
    last = np.ones(count, bool)
    last[:-1] = keys[order][1:] != keys[order][:-1]
    kept = np.sort(order[last])
    return Records(rows=rows.take(pa.array(kept)), deleted=records.deleted[kept])


# Entries of the record index
_ORDER = {INSTANT: "instant", LOG_VERSION: "log_version", TOKEN: "write_token"}
"""The columns of entries that a root has, by the name that it has there."""


class RecordEntries:
    """Makes one entry a record."""

    def entries(self, kind: RecordIndex, of: FileRows) -> pa.Table:
        """Return the entries about the records of a file."""
        rules, time_column = rules_of(of.table), of.table.time_column
        named = {
            key_column(number): name for number, name in zip(kind.columns, rules.key, strict=True)
        }
        if rules.ordering:
            named[ORDERING] = rules.ordering
        rows, roots = of.records([*dict.fromkeys(kind.sources(of.table))])
        found = {name: rows.column(source) for name, source in named.items()}
        found[START] = pc.cast(instants(rows.column(time_column)), pa.int64()).cast(
            pa.timestamp("us", "UTC")
        )
        if roots.num_rows == 1:
            own = {name: roots.column(source)[0] for name, source in _ORDER.items()}
            found |= {name: pa.repeat(value, rows.num_rows) for name, value in own.items()}
        else:
            places = pc.index_in(rows.column(ROOT_PARTITION), roots.column("partition"))
            found |= {name: roots.column(source).take(places) for name, source in _ORDER.items()}
        found[DELETED] = pc.equal(rows.column(OP), DELETE)
        return pa.table(found)

    def columns_for(
        self, kind: RecordIndex, table: TableDefinition, test: Predicate
    ) -> tuple[str, ...]:
        """Return none: entries do not describe files."""
        del kind, table, test
        return ()

    def view(self, kind: RecordIndex, table: TableDefinition, entries: pa.Table) -> "RecordView":
        """Return a view that knows no file."""
        del kind, table, entries
        return RecordView()


class RecordView:
    """View for readers of files: entries about records exclude no file."""

    def knows(self, segment: Segment) -> bool:
        """Return False: no entry names a file."""
        del segment
        return False

    def may_hold(self, segment: Segment, test: Predicate) -> bool:
        """Return True."""
        del segment, test
        return True
