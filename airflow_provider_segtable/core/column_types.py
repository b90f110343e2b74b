"""Column types: each type's meaning to all that does not compute with its values.

1. ``TYPES`` has one record a type, under Arrow's name without time zone, digits and width. Its
   order is that of messages.
2. A type with parameters (``decimal128(10, 2)``) has a record, too. A nested type has none: it
   consists of others (``data.arrow_schema``).
3. Kernels compute by Arrow's types, not by this table: sorting, hashing, bounds of files, SQL. A
   type that they do not know is refused by them, by name.
"""

from collections.abc import Mapping
from dataclasses import field

from airflow_provider_segtable.core.dataclass import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class ColumnType:
    """One type.

    Attributes:
        name: its name in ``TYPES``.
        texts: its forms without parameters, as Arrow prints them; empty if it always has some.
        words: other names in users' schemas, each with the type as Arrow prints it.
        wider: the types to which a column can be widened.
        delta: its name in Delta Lake; empty if it has none, or one that depends on parameters.
        iceberg: its name in Apache Iceberg, likewise.
        spark: Spark's type as JSON, where Spark does not take it from Arrow's.
        summed: the type of its sums; empty if it has none, or one that depends on parameters.
        sketches: the kinds of sketches over its values.
        ordered: whether rollup tables group by it, and have its least and greatest value.
        bounded: whether column statistics have its bounds.
        hashed: whether a Bloom filter takes its values.
    """

    name: str
    texts: tuple[str, ...] = ()
    words: Mapping[str, str] = field(default_factory=dict)
    wider: tuple[str, ...] = ()
    delta: str = ""
    iceberg: str = ""
    spark: str = ""
    summed: str = ""
    sketches: tuple[str, ...] = ()
    ordered: bool = False
    bounded: bool = False
    hashed: bool = False


def _words(kind: str, *words: str) -> dict[str, str]:
    return dict.fromkeys(words, kind)


_SIGNED = ("int8", "int16", "int32", "int64")
_UNSIGNED = ("uint8", "uint16", "uint32", "uint64")


def _signed(name: str, delta: str, iceberg: str, *words: str) -> ColumnType:
    return ColumnType(
        name=name,
        texts=(name,),
        words=_words(name, *words),
        wider=_SIGNED[_SIGNED.index(name) + 1 :],
        delta=delta,
        iceberg=iceberg,
        summed="int64",
        sketches=("hll", "theta", "kll"),
        ordered=True,
        bounded=True,
        hashed=True,
    )


def _unsigned(name: str, spark: str) -> ColumnType:
    exact = name != "uint64"  # in int64
    return ColumnType(
        name=name,
        texts=(name,),
        wider=_UNSIGNED[_UNSIGNED.index(name) + 1 :],
        spark=spark,
        summed="int64" if exact else "",
        sketches=("hll", "theta", "kll") if exact else (),
        ordered=True,
    )


def _floating(name: str, wider: tuple[str, ...], *words: str) -> ColumnType:
    return ColumnType(
        name=name,
        texts=(name,),
        words=_words(name, *words),
        wider=wider,
        delta=name,
        iceberg=name,
        summed="double",
        sketches=("theta", "kll"),
        ordered=True,
        bounded=True,
    )


def _text(name: str, plain: str, words: Mapping[str, str], *, bounded: bool) -> ColumnType:
    return ColumnType(
        name=name,
        texts=(name,),
        words=words,
        delta=plain,
        iceberg=plain,
        sketches=("hll", "theta"),
        ordered=True,
        bounded=bounded,
        hashed=name != "large_binary",
    )


def _units(name: str, *units: str) -> tuple[str, ...]:
    return tuple(f"{name}[{unit}]" for unit in units)


_ALL = (
    _signed("int8", "byte", "int", "tinyint", "byte"),
    _signed("int16", "short", "int", "smallint", "short"),
    _signed("int32", "integer", "int"),
    _signed("int64", "long", "long", "int", "integer", "bigint", "long"),
    _unsigned("uint8", "short"),
    _unsigned("uint16", "integer"),
    _unsigned("uint32", "long"),
    _unsigned("uint64", "decimal(20,0)"),
    ColumnType(
        name="halffloat",
        texts=("halffloat",),
        words=_words("halffloat", "float16"),
        wider=("float", "double"),
    ),
    _floating("float", ("double",), "real", "float32"),
    _floating("double", (), "float64", "double precision"),
    ColumnType(
        name="bool",
        texts=("bool",),
        words=_words("bool", "boolean"),
        delta="boolean",
        iceberg="boolean",
        ordered=True,
        bounded=True,
        hashed=True,
    ),
    _text(
        "string",
        "string",
        _words("string", "str", "text", "varchar", "character varying", "char", "utf8"),
        bounded=True,
    ),
    _text("large_string", "string", _words("large_string", "large_utf8"), bounded=True),
    _text(
        "binary", "binary", _words("binary", "bytes", "bytea", "blob", "varbinary"), bounded=False
    ),
    _text("large_binary", "binary", {}, bounded=False),
    ColumnType(name="fixed_size_binary"),
    ColumnType(
        name="date32",
        texts=_units("date32", "day"),
        words=_words("date32[day]", "date", "date32"),
        delta="date",
        iceberg="date",
        ordered=True,
        bounded=True,
        hashed=True,
    ),
    ColumnType(name="date64", texts=_units("date64", "ms"), spark="date", ordered=True),
    ColumnType(name="time32", texts=_units("time32", "s", "ms")),
    ColumnType(
        name="time64[us]",
        texts=("time64[us]",),
        words=_words("time64[us]", "time"),
        iceberg="time",
    ),
    ColumnType(name="time64[ns]", texts=("time64[ns]",)),
    ColumnType(
        name="timestamp",
        texts=_units("timestamp", "s", "ms", "us", "ns"),
        words={
            **_words("timestamp[us, tz=UTC]", "timestamp", "timestamptz", "timestamp_ltz"),
            **_words("timestamp[us, tz=UTC]", "timestamp with time zone"),
            **_words("timestamp[us, tz=UTC]", "timestamp with local time zone"),
            **_words("timestamp[us]", "timestamp without time zone", "timestamp_ntz", "datetime"),
        },
        ordered=True,
        bounded=True,
        hashed=True,
    ),
    ColumnType(
        name="duration",
        texts=_units("duration", "s", "ms", "us", "ns"),
        words=_words("duration[us]", "interval", "duration"),
    ),
    ColumnType(name="decimal128", bounded=True, hashed=True),
    ColumnType(name="null", texts=("null",)),
)

TYPES: dict[str, ColumnType] = {each.name: each for each in _ALL}


def type_named(text: str) -> ColumnType | None:
    """Return the record of a type as Arrow prints it; None for nested and unknown types."""
    return TYPES.get(text) or TYPES.get(base_name(text))


def base_name(text: str) -> str:
    """Return a type's name without unit, zone, digits and width."""
    return text.partition("[")[0].partition("(")[0]


def words() -> dict[str, str]:
    """Return the other names in users' schemas, each with the type as Arrow prints it."""
    return {word: text for each in TYPES.values() for word, text in each.words.items()}
