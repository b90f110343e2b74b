"""Parse schemas such as ``"carrier string, time_hour timestamp[us, tz=UTC] not null"``.

Types are Arrow's names, as ``segtable table describe`` prints them, and a few common aliases.
"""

import re
from typing import TYPE_CHECKING

from airflow_provider_segtable.core.errors import SchemaMismatch

if TYPE_CHECKING:
    import pyarrow as pa

ALIASES = {
    "boolean": "bool",
    "int": "int64",
    "integer": "int64",
    "float64": "double",
    "float32": "float",
    "float16": "halffloat",
    "str": "string",
    "text": "string",
    "bytes": "binary",
    "date": "date32[day]",
    "date32": "date32[day]",
    "timestamp": "timestamp[us, tz=UTC]",
}
EXAMPLE = '"user string, amount double, at timestamp[us, tz=UTC] not null"'


def parse_schema(text: str) -> "pa.Schema":
    """Parse comma-separated ``name type [not null]``.

    Raises:
        SchemaMismatch: a column cannot be parsed; the message names it.
    """
    import pyarrow as pa

    fields = [_field(part) for part in _columns(text) if part]
    names = [field.name for field in fields]
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise SchemaMismatch(f"schema names column {twice[0]!r} twice: names must differ")
    if not fields:
        raise SchemaMismatch(f"schema {text!r} has no columns: write e.g. {EXAMPLE}")
    return pa.schema(fields)


def _field(text: str) -> "pa.Field":
    import pyarrow as pa

    from airflow_provider_segtable.data.arrow.arrow_schema import parse_type

    match = re.fullmatch(r"([^\s:]+)\s*[\s:]\s*(.+?)(\s+not\s+null)?", text, re.IGNORECASE)
    if not match:
        raise SchemaMismatch(
            f"column {text!r} is not of the form `name type`: write e.g. {EXAMPLE}"
        )
    name, kind, required = match.groups()
    try:
        found = parse_type(ALIASES.get(kind.lower(), kind))
    except SchemaMismatch:
        known = ", ".join(sorted(ALIASES))
        raise SchemaMismatch(
            f"column {name!r} has type {kind!r}, which is unknown: write one of Arrow's (int64, "
            f"string, double, timestamp[us, tz=UTC], list<item: string>, ...) or an alias ({known})"
        ) from None
    return pa.field(name, found, nullable=required is None)


def _columns(text: str) -> list[str]:
    parts, depth, start = [], 0, 0
    for at, char in enumerate(text):
        depth += (char in "<[(") - (char in ">])")
        if char == "," and depth == 0:
            parts.append(text[start:at].strip())
            start = at + 1
    return [*parts, text[start:].strip()]
