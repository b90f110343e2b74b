"""Arrays and maps in SQL, as Spark computes them (ANSI).

1. The elements of all rows are one array (``Pieces``), with the row that each belongs to. So a
   comparison or a condition is computed for all of them at once, and then put together by rows.
2. An array or map that is null has no elements, and any result of it is null.
3. An index beyond an array is an error, but for ``get``; a key that a map lacks is null.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from airflow_provider_segtable.core.errors import SchemaMismatch
from airflow_provider_segtable.core.predicate import Compares
from airflow_provider_segtable.data.sql.computed_types import TEXT, normal
from airflow_provider_segtable.data.sql.sql_casts import brought, common, comparable
from airflow_provider_segtable.data.sql.text_values import OnlySpark
from airflow_provider_segtable.data.sql.value_order import compared

_is = pa.types


@dataclass(frozen=True, slots=True)
class Pieces:
    """The elements of arrays, or the keys of maps, row after row.

    Attributes:
        elements: all of them, in the types that are computed with.
        places: where they are among all elements that the column has.
        rows: the row of each.
        counts: how many each row has.
        known: which rows have an array or a map at all.
    """

    elements: pa.Array
    places: Any
    rows: pa.Array
    counts: Any
    known: Any

    def quantified(self, truth: pa.Array, *, some: bool) -> pa.Array:
        """Return for each row whether some element's truth is true, or all are; null if unknown."""
        decided = np.asarray(pc.fill_null(pc.equal(truth, some), False))
        return self._decided(decided, np.asarray(pc.is_null(truth)), some=some)

    def _decided(self, decided: Any, unknown: Any, *, some: bool) -> pa.Array:
        rows, count = np.asarray(self.rows), len(self.known)
        found = np.bincount(rows[decided], minlength=count) > 0
        open_ = ~found & (np.bincount(rows[unknown], minlength=count) > 0)
        return pa.array(found == some, mask=open_ | ~self.known)

    def at(self, indices: pa.Array, *, first: int, beyond: bool) -> Any:
        """Return where each row's element lies in ``elements``, as numbers with nulls.

        Args:
            indices: of each row's element.
            first: the index of the first one; if 1, negative ones count from the end.
            beyond: whether a missing element is null.

        Raises:
            ValueError: there is no such element.
        """
        known = self.known & np.asarray(pc.is_valid(indices))
        wanted = np.asarray(pc.fill_null(indices.cast(pa.int64()), first))
        behind = (wanted < 0) if first else np.zeros(len(wanted), bool)
        place = np.where(behind, self.counts + wanted, wanted - first)
        there = (place >= 0) & (place < self.counts)
        if not beyond and not (there | ~known).all():
            bad = int(np.flatnonzero(known & ~there)[0])
            raise ValueError(
                f"index {wanted[bad]} is outside an array of {self.counts[bad]} elements"
            )
        starts = np.cumsum(self.counts) - self.counts
        return pa.array(starts + place, pa.int64(), mask=~(known & there))


def pieces(values: pa.Array) -> Pieces:
    """Return the elements of arrays, or the keys of maps."""
    if _is.is_fixed_size_list(values.type):
        values = values.cast(pa.list_(values.type.value_type))
    is_map = _is.is_map(values.type)
    if not (is_map or _is.is_list(values.type) or _is.is_large_list(values.type)):
        raise OnlySpark(f"{values.type} is neither an array nor a map")
    known = np.asarray(pc.is_valid(values))
    offsets = np.asarray(values.offsets).astype(np.int64)
    counts = np.where(known, np.diff(offsets), 0)
    rows = np.repeat(np.arange(len(values)), counts)
    within = np.arange(len(rows)) - np.repeat(np.cumsum(counts) - counts, counts)
    places = offsets[:-1][rows] + within if len(rows) else rows
    elements = (values.keys if is_map else values.values).take(pa.array(places))
    return Pieces(normal(elements), places, pa.array(rows), counts, known)


def size(values: pa.Array) -> pa.Array:
    """Return how many elements arrays or maps have."""
    found = pieces(values)
    return pa.array(found.counts, pa.int32(), mask=~found.known)


def contains(values: pa.Array, wanted: pa.Array) -> pa.Array:
    """Return whether arrays have a value; unknown if not, and an element is null."""
    found = pieces(_only(values, _is_array))
    same = _same(found, wanted)
    result = found.quantified(same, some=True)
    return pc.if_else(pc.is_valid(wanted), result, pa.scalar(None, pa.bool_()))


def has_key(values: pa.Array, key: pa.Array) -> pa.Array:
    """Return whether maps have a key."""
    found = pieces(_only(values, _is.is_map))
    return pc.if_else(
        pc.is_valid(key),
        found.quantified(pc.fill_null(_same(found, key), False), some=True),
        pa.scalar(None, pa.bool_()),
    )


def item(values: pa.Array, wanted: pa.Array, *, first: int, beyond: bool) -> pa.Array:
    """Return an element of arrays, or what maps have for a key."""
    if not _is.is_map(values.type):
        found = pieces(_only(values, _is_array))
        if not _is.is_integer(wanted.type) or wanted.type == pa.int64():
            raise OnlySpark("an index is a whole number of 32 bits")
        return found.elements.take(found.at(wanted, first=first, beyond=beyond))
    found = pieces(values)
    same = np.asarray(pc.fill_null(_same(found, wanted), False))
    rows = np.asarray(found.rows)[same]
    place = np.full(len(values), -1)
    place[rows] = np.asarray(found.places)[same]
    return normal(values.items.take(pa.array(place, mask=place < 0)))


def keys_or_items(values: pa.Array, *, keys: bool) -> pa.Array:
    """Return the keys of maps, or what they have for them, as arrays."""
    found = pieces(_only(values, _is.is_map))
    elements = found.elements
    if not keys:
        elements = normal(values.items.take(pa.array(found.places)))
    offsets = np.concatenate([[0], np.cumsum(found.counts)])
    return pa.ListArray.from_arrays(
        pa.array(offsets, pa.int32()), elements, mask=pa.array(~found.known)
    )


def split(texts: Sequence[str | None], by: str) -> pa.Array:
    """Return the parts of texts between a separator, which is no regular expression."""
    found = [None if text is None else text.split(by) for text in texts]
    return pa.array(found, pa.list_(TEXT))


def field_of(values: pa.Array, name: str) -> pa.Array:
    """Return a field of structs."""
    if not _is.is_struct(values.type):
        raise OnlySpark(f"{values.type} has no fields")
    if name not in values.type.names:
        raise SchemaMismatch(f"there is no field {name!r}: it is {values.type}")
    return normal(pc.struct_field(values, name))


def _same(found: Pieces, wanted: pa.Array) -> pa.Array:
    """Return for each element whether it equals the value that its row looks for."""
    if (found.elements.type == TEXT) != (wanted.type == TEXT) or _is.is_null(wanted.type):
        raise OnlySpark(f"it looks for {wanted.type} among {found.elements.type}")
    kind = comparable(common(found.elements.type, wanted.type))
    each = brought(wanted, kind).take(found.rows)
    return compared(brought(found.elements, kind), Compares.EQUAL, each)


def _is_array(kind: pa.DataType) -> bool:
    return any(each(kind) for each in (_is.is_list, _is.is_large_list, _is.is_fixed_size_list))


def _only(values: pa.Array, of: Any) -> pa.Array:
    if not of(values.type):
        raise OnlySpark(f"it is {values.type}")
    return values
