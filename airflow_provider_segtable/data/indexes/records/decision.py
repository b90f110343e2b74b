"""Decide which record of each key wins in the whole table, and what has to be corrected.

1. A key's records lie in *places*, the time chunks of their event times. In each place the highest
   record is on top (``core.tables.keyed.merge_rules``); it is live unless it deletes the key.
2. Of all records of a key the highest one *wins*, as if the table were one chunk.
3. A live record on top of any other place *loses*. It is corrected by a tombstone in its place,
   which is higher than the loser and lower than the winner (``correction_orders``). So a compaction
   that joins the places, or merges any of the files in any order, keeps the winner.
4. Records are equal only if they are the same one, so the decision is the same for everyone.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from airflow_provider_segtable.core.indexes.index_kind import START
from airflow_provider_segtable.core.indexes.record_index import (
    DELETED,
    INSTANT,
    LOG_VERSION,
    ORDERING,
    TOKEN,
)
from airflow_provider_segtable.core.tables.merge_rules import MergeRules
from airflow_provider_segtable.core.time import Interval, Layout
from airflow_provider_segtable.data.merge.key_groups import codes_of, whole
from airflow_provider_segtable.data.merge.merging import key_codes
from airflow_provider_segtable.data.sort.sort_keys import Indices

LOWEST = "0" * 16
"""A write token that is as low as any."""
_LEAST = np.iinfo(np.int64).min


@dataclass(frozen=True, slots=True)
class Decision:
    """What is decided of some facts, by their row numbers.

    Attributes:
        winner_of: of each fact, the fact that wins its key.
        losers: the facts to correct: live, on top of their places, and not the winners.
    """

    winner_of: Indices
    losers: Indices

    @property
    def over(self) -> Indices:
        """Return of each loser the fact that wins."""
        return self.winner_of[self.losers]


@dataclass(frozen=True, slots=True)
class Orders:
    """The orders of corrections: of each, its instant, log version and the start of its token."""

    instants: Indices
    versions: Indices
    tokens: Sequence[str]


def places_of(facts: pa.Table, layout: Layout) -> tuple[Indices, list[Interval]]:
    """Return the number of each fact's time chunk, and the chunks by their numbers."""
    times, where = np.unique(_numbers(facts, START), return_inverse=True)
    numbers, chunks = np.empty(len(times), np.int64), dict[Interval, int]()
    first = 0
    while first < len(times):
        end = int(np.searchsorted(times, layout.edge(int(times[first]))))
        numbers[first:end] = chunks.setdefault(layout.chunk(int(times[first])), len(chunks))
        first = end
    return numbers[where], [*chunks]


def decided(facts: pa.Table, places: Indices, key: Sequence[str]) -> Decision:
    """Decide which facts win and which lose.

    Args:
        facts: facts about different records; all that are known of a key.
        places: the number of each fact's place.
        key: the columns of the key.
    """
    count = facts.num_rows
    keys, ranks = key_codes(facts, MergeRules(key=tuple(key))).rows, _ranks(facts)
    order = np.lexsort((ranks, keys))
    last = _lasts(keys[order])
    winner_of = np.empty(count, np.int64)
    winner_of[order] = order[last][np.cumsum(np.append(0, last[:-1]))] if count else order
    top = _tops(keys, places, ranks)
    live = ~np.asarray(whole(facts.column(DELETED)).to_numpy(zero_copy_only=False))
    loses = live[top] & (places[top] != places[winner_of[top]])
    return Decision(winner_of, np.sort(top[loses]))


def tops(facts: pa.Table, places: Indices, key: Sequence[str]) -> Indices:
    """Return the highest fact of each key and place; arguments as of ``decided``."""
    return _tops(key_codes(facts, MergeRules(key=tuple(key))).rows, places, _ranks(facts))


def _tops(keys: npt.NDArray[np.uint64], places: Indices, ranks: npt.NDArray[np.uint64]) -> Indices:
    order = np.lexsort((ranks, places, keys))
    return order[_lasts(keys[order]) | _lasts(places[order])]


def _lasts(values: npt.NDArray[np.generic]) -> npt.NDArray[np.bool_]:
    """Return which rows are the last ones of equal neighbours."""
    lasts = np.ones(len(values), bool)
    lasts[:-1] = values[1:] != values[:-1]
    return lasts


def _ranks(facts: pa.Table) -> npt.NDArray[np.uint64]:
    ordering = (ORDERING,) if ORDERING in facts.column_names else ()
    columns = (*ordering, INSTANT, LOG_VERSION, TOKEN)
    return codes_of([whole(facts.column(name)) for name in columns]).rows


def correction_orders(facts: pa.Table, decision: Decision) -> Orders:
    """Return an order for each loser's correction: above the loser, and below the winner.

    A correction has the winner's ordering value. As few instants as possible are taken, because
    each one is a file in each place: an instant that is later than a loser's and not later than its
    winner's does. Only records of one instant, and equal ordering values, are told apart by tokens.
    """
    over, losers = decision.over, decision.losers
    instants, versions = _numbers(facts, INSTANT), _numbers(facts, LOG_VERSION)
    tied = _same_ordering(facts, losers, over)
    twins = tied & (instants[losers] == instants[over])
    low, high = np.where(tied, instants[losers], _LEAST), instants[over]
    found = high.copy()
    found[~twins] = _shared(low[~twins], high[~twins])
    tokens = [LOWEST] * len(losers)
    for at in np.flatnonzero(twins).tolist():
        tokens[at] = below(facts.column(TOKEN)[int(over[at])].as_py())
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


def _same_ordering(facts: pa.Table, some: Indices, others: Indices) -> npt.NDArray[np.bool_]:
    if ORDERING not in facts.column_names:
        return np.ones(len(some), bool)
    codes = codes_of([whole(facts.column(ORDERING))]).rows
    return np.asarray(codes[some] == codes[others])


def _numbers(facts: pa.Table, name: str) -> Indices:
    column = whole(facts.column(name))
    plain = column.cast(pa.int64()) if not pa.types.is_int32(column.type) else column
    return np.asarray(plain.to_numpy(zero_copy_only=False), np.int64)
