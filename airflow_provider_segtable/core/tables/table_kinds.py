"""The registry of kinds of table, and their form in JSON.

1. Each kind records itself in the fields of a table's definition. An append table has none of its
   own, a rollup table has ``rollup``. Any later kind writes its name as ``kind``, beside a field of
   that name with its settings.
2. A kind that is not in the registry is refused by its name: to read its files as rows of an
   append table would show rows that do not exist.
"""

from collections.abc import Callable, Mapping
from typing import Any

from airflow_provider_segtable.core.errors import UnsupportedFormat
from airflow_provider_segtable.core.tables.append_kind import Append
from airflow_provider_segtable.core.tables.keyed_kind import PrimaryKey
from airflow_provider_segtable.core.tables.rollup_kind import Rollup
from airflow_provider_segtable.core.tables.table_kind import TableKind

KINDS: Mapping[str, Callable[[Mapping[str, Any]], TableKind]] = {
    Append.name: Append.decoded,
    Rollup.name: Rollup.decoded,
    PrimaryKey.name: PrimaryKey.decoded,
}
"""How to read each kind from a table's definition, by its name."""


def decode_kind(body: Mapping[str, Any]) -> TableKind:
    """Return the kind that a table's definition records.

    Raises:
        UnsupportedFormat: the kind is not known here; the message names it.
    """
    name = body.get("kind") or (Rollup.name if Rollup.name in body else Append.name)
    if name not in KINDS:
        raise UnsupportedFormat(
            f"this is a table of kind {name!r}, this segtable knows {', '.join(KINDS)}: "
            "upgrade segtable"
        )
    return KINDS[name](body)
