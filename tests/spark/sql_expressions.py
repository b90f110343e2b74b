"""Random expressions in SQL over a small table, drawn from a seed.

Each kind of value has its columns, literals and functions. Now and then an expression has a value
of another kind than is wanted, as users' expressions do, and parts lack their parentheses.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime
from decimal import Decimal
from math import inf, nan
from random import Random

import pyarrow as pa

_INNER = pa.struct([("c", pa.string())])
ROWS = pa.table(
    {
        "i8": pa.array([0, 1, -1, 127, -128, None, 7, 2], pa.int8()),
        "i16": pa.array([0, 300, -5, None, 32767, -32768, 12, 3], pa.int16()),
        "i32": pa.array([0, 1, None, -7, 2147483647, -2147483648, 100, 31], pa.int32()),
        "i64": pa.array([0, 2, 2**53 + 1, -(2**63), 2**63 - 1, None, -1, 40], pa.int64()),
        "f32": pa.array([0.0, -0.0, 0.1, 1.5, nan, None, inf, -2.5], pa.float32()),
        "f64": pa.array([0.0, -0.0, 0.1, 2.5, nan, None, -inf, 1e300]),
        "m": pa.array(
            [
                Decimal(t) if t else None
                for t in ("0", "1.50", "-1.25", "0.10", "", "99999999.99", "1", "2.5")
            ],
            pa.decimal128(10, 2),
        ),
        "w": pa.array(
            [
                Decimal(t) if t else None
                for t in ("0", "1.5", "", "-0.0000000001", "1e27", "7", "0.1", "-3")
            ],
            pa.decimal128(38, 10),
        ),
        "s": pa.array(["", "a", "O'Hare", "%x_", None, "é\n", "B\\b", " a "]),
        "n": pa.array(["0", " 12 ", "-3", "1.5", "1e2", None, "NaN", "x"]),
        "at": pa.array(
            [
                datetime(2026, 1, 31, 23, 59, 59, 999999, UTC),
                datetime(1970, 1, 1, tzinfo=UTC),
                datetime(1969, 12, 31, 12, 30, tzinfo=UTC),
                datetime(2024, 2, 29, 6, 0, 1, tzinfo=UTC),
                None,
                datetime(1, 1, 2, tzinfo=UTC),
                datetime(2026, 3, 29, 1, 30, tzinfo=UTC),
                datetime(2027, 1, 1, tzinfo=UTC),
            ]
        ),
        "d": pa.array(
            [
                date(2026, 1, 31),
                date(1970, 1, 1),
                None,
                date(2024, 2, 29),
                date(1969, 12, 31),
                date(2027, 1, 3),
                date(1, 1, 1),
                date(2026, 12, 31),
            ]
        ),
        "yes": pa.array([True, False, None, True, False, None, True, False]),
        "bin": pa.array([b"", b"a", None, b"O'Hare", b"\xff", b"\0", b"A", b"b"]),
        "st": pa.array(
            [
                {"a": 1, "b": {"c": "x"}},
                {"a": None, "b": None},
                None,
                {"a": 3, "b": {"c": None}},
                {"a": -1, "b": {"c": "a"}},
                None,
                {"a": 0, "b": {"c": ""}},
                {"a": 5, "b": {"c": "é"}},
            ],
            pa.struct([("a", pa.int32()), ("b", _INNER)]),
        ),
    }
)
NUMBERS, TEXTS, TIMES, DATES, TRUTHS = "number", "text", "time", "date", "truth"
KINDS = (NUMBERS, TEXTS, TIMES, DATES, TRUTHS)
_COLUMNS = {
    NUMBERS: ("i8", "i16", "i32", "i64", "f32", "f64", "m", "w", "st.a"),
    TEXTS: ("s", "s", "n", "st.b.c"),
    TIMES: ("at",),
    DATES: ("d",),
    TRUTHS: ("yes",),
}
_LITERALS = {
    NUMBERS: (
        *("0", "1", "2", "-1", "3", "300", "-129", "127", "2147483647", "2147483648", "1L", "2S"),
        *("9007199254740993", "9223372036854775807", "-9223372036854775808", "1.5", "-0.5", ".1"),
        *("0.10", "1.255", "1e0", "-0.0e0", "1.5e0", "1e300", "9007199254740992e0", "0.1F", "1.5D"),
        *(
            "1.5BD",
            "1e-3BD",
            "1Y",
            "100.",
            "12345678901234567890.123456789012345678",
            "'1'",
            "' 2 '",
        ),
        *("'1.5'", "'x'", "'NaN'", "cast('Infinity' as double)", "null", "double('nan')"),
    ),
    TEXTS: (
        *("''", "'a'", "'O''Hare'", '"O\'Hare"', r"'O\'Hare'", r"'%x\_'", r"r'B\b'", r"'B\\b'"),
        *("'a' 'b'", "'x' \"y\" r'z'", r"'\u00e9\n'", r"'\U0001F600'", r"'\x\q\0'", "'A'", "' a '"),
        *(
            "'ab''' -- comment\n",
            "'c' /* a /* b */ */ 'd'",
            "1",
            "1.50",
            "date '2026-01-31'",
            "null",
        ),
    ),
    TIMES: (
        *("timestamp '2026-01-31 23:59:59.999999'", "timestamp '1970-01-01'", "timestamp '2026'"),
        *("timestamp '2026-03-29 02:30:00 Europe/Berlin'", "timestamp '2026-1-1 1:2:3.1234567'"),
        *("timestamp '2024-02-29T06:00:01Z'", "timestamp '2024-02-29 06:00:01 +05:30'"),
        *(
            "timestamp_ntz '2026-01-01 10:00:00+02:00'",
            "'2026-01-31'",
            "'2026-3'",
            "'noon'",
            "null",
        ),
        *(
            "cast('2027-01-01 00:00' as timestamp)",
            "'0001-01-02 00:00:00 UTC'",
            "date '1970-01-01'",
        ),
    ),
    DATES: (
        *(
            "date '2026-01-31'",
            "date '1970-1-1'",
            "date '2024-02'",
            "'2026-12-31'",
            "'1969-12-31 x'",
        ),
        *("cast('2026-12-31T25' as date)", "date '0001-01-01'", "'2026-02-30'", "null"),
    ),
    TRUTHS: ("true", "false", "null", "'true'", "'No'", "'maybe'"),
}
_COMPARES = ("=", "==", "<>", "!=", "<", "<=", ">", ">=", "<=>")
_PATTERNS = ("'a%'", r"'%\_'", "'_'", "'O''%e'", r"r'B\\_'", "'%'", "''", r"'\%x%'", "'É%'")
_REGEXES = ("'a'", "'^a$'", "'^[A-Z].*e$'", r"'\\w+'", "'a|b'", "'.'", "'x_$'", r"'(a'", r"'\\bx'")
_UNITS = ("year", "quarter", "month", "week", "day", "hour", "minute", "second", "decade")
_INTERVALS = (
    *(
        "interval 1 day",
        "interval '2' hours",
        "interval 1 month",
        "interval -1 year",
        "interval 1 week",
    ),
    *(
        "interval '1.5' second",
        "interval '1 day 2 hours'",
        "interval 90 minutes",
        "interval 13 months",
    ),
    *("interval 1 year 2 months", "interval '1 02:03:04' day to second", "- interval 1 day"),
)


@dataclass(frozen=True, slots=True)
class Expressions:
    """Draws expressions."""

    draw: Random

    def of(self, kind: str, depth: int) -> str:
        """Return an expression, mostly of a kind."""
        if self.draw.random() < 0.04:
            kind = self.draw.choice(KINDS)
        if depth <= 0 or self.draw.random() < 0.15:
            columns = self.draw.random() < 0.55
            return self.draw.choice((_COLUMNS if columns else _LITERALS)[kind])
        made = self.draw.choice(self._makers(kind))(depth - 1)
        return made if self.draw.random() < 0.5 else f"({made})"

    def _makers(self, kind: str) -> Sequence[Callable[[int], str]]:
        common = (self._chosen(kind),)
        match kind:
            case "number":
                return (
                    *common,
                    self._arithmetic,
                    self._arithmetic,
                    self._of_number,
                    self._measured,
                )
            case "text":
                return (*common, self._of_text, self._of_text, self._to_text)
            case "time":
                return (
                    *common,
                    self._moved(TIMES),
                    self._truncated,
                    self._cast(TIMES, "timestamp"),
                )
            case "date":
                return (*common, self._moved(DATES), self._day, self._cast(DATES, "date"))
        tests = (
            self._compared,
            self._compared,
            self._compared,
            self._among,
            self._between,
            self._matched,
        )
        return (*tests, self._tested, self._joined, self._joined)

    def _chosen(self, kind: str) -> Callable[[int], str]:
        def make(depth: int) -> str:
            one, other = self.of(kind, depth), self.of(kind, depth)
            test = self.of(TRUTHS, depth)
            return self.draw.choice(
                (
                    f"if({test}, {one}, {other})",
                    f"case when {test} then {one} else {other} end",
                    f"coalesce({one}, {other})",
                    f"nvl({one}, {other})",
                    f"nullif({one}, {other})",
                    f"greatest({one}, {other})",
                    f"least({one}, {other})",
                    f"case {one} when {other} then {one} end",
                )
            )

        return make

    def _arithmetic(self, depth: int) -> str:
        operator = self.draw.choice(("+", "-", "*", "/", "%", "div"))
        return f"{self.of(NUMBERS, depth)} {operator} {self.of(NUMBERS, depth)}"

    def _of_number(self, depth: int) -> str:
        of = self.of(NUMBERS, depth)
        kind = self.draw.choice(
            (
                "tinyint",
                "smallint",
                "int",
                "bigint",
                "float",
                "double",
                "decimal(10,2)",
                "decimal(38,18)",
            )
        )
        given = (
            f"-({of})",
            f"abs({of})",
            f"round({of}, {self.draw.randrange(-2, 4)})",
            f"sqrt({of})",
        )
        more = (
            f"ceil({of})",
            f"floor({of})",
            f"sign({of})",
            f"cast({of} as {kind})",
            f"{kind}({of})",
        )
        return self.draw.choice((*given, *more[:4]) if "(" in kind else (*given, *more))

    def _measured(self, depth: int) -> str:
        text, other = self.of(TEXTS, depth), self.of(TEXTS, depth)
        day = self.of(self.draw.choice((DATES, TIMES)), depth)
        part = self.draw.choice(
            (
                "year",
                "quarter",
                "month",
                "day",
                "dayofyear",
                "weekofyear",
                "dayofweek",
                "weekday",
                "hour",
                "minute",
                "second",
                "dayofmonth",
            )
        )
        return self.draw.choice(
            (
                f"length({text})",
                f"instr({text}, {other})",
                f"locate({other}, {text}, {self.draw.randrange(4)})",
                f"{part}({day})",
                f"{part}({day})",
                f"datediff({day}, {self.of(DATES, depth)})",
                f"cast({self.of(TRUTHS, depth)} as int)",
                f"cast({self.of(TIMES, depth)} as bigint)",
                f"cast({text} as {self.draw.choice(('int', 'double', 'decimal(5,1)', 'tinyint'))})",
            )
        )

    def _of_text(self, depth: int) -> str:
        text, other = self.of(TEXTS, depth), self.of(TEXTS, depth)
        at, count = self.draw.randrange(-4, 5), self.draw.randrange(-1, 4)
        return self.draw.choice(
            (
                f"upper({text})",
                f"lower({text})",
                f"trim({text})",
                f"ltrim({text})",
                f"trim(trailing 'a ' from {text})",
                f"{text} || {other}",
                f"concat({text}, {other}, 'z')",
                f"substring({text}, {at}, {count})",
                f"substr({text}, {at})",
                f"left({text}, {count})",
                f"right({text}, {count})",
                f"replace({text}, {other}, '-')",
                f"reverse({text})",
            )
        )

    def _to_text(self, depth: int) -> str:
        return f"cast({self.of(self.draw.choice(KINDS), depth)} as string)"

    def _moved(self, kind: str) -> Callable[[int], str]:
        def make(depth: int) -> str:
            sign, of = self.draw.choice("+-"), self.of(kind, depth)
            return f"{of} {sign} {self.draw.choice(_INTERVALS)}"

        return make

    def _truncated(self, depth: int) -> str:
        return f"date_trunc('{self.draw.choice(_UNITS)}', {self.of(TIMES, depth)})"

    def _day(self, depth: int) -> str:
        of, count = self.of(self.draw.choice((DATES, TIMES)), depth), self.draw.randrange(-40, 40)
        return self.draw.choice(
            (
                f"date_add({of}, {count})",
                f"date_sub({of}, {count})",
                f"add_months({of}, {count})",
                f"last_day({of})",
                f"trunc({of}, '{self.draw.choice(_UNITS)}')",
                f"to_date({of})",
                f"{of} + {count}",
                f"{of} - {abs(count)}",
            )
        )

    def _cast(self, kind: str, to: str) -> Callable[[int], str]:
        source = {TIMES: (DATES, TEXTS, NUMBERS), DATES: (TIMES, TEXTS)}[kind]
        return lambda depth: f"cast({self.of(self.draw.choice(source), depth)} as {to})"

    def _compared(self, depth: int) -> str:
        kind = self.draw.choice(KINDS)
        how = self.draw.choice(_COMPARES)
        return f"{self.of(kind, depth)} {how} {self.of(kind, depth)}"

    def _among(self, depth: int) -> str:
        kind = self.draw.choice(KINDS)
        values = [self.of(kind, 0) for _ in range(self.draw.randrange(1, 5))]
        no = self.draw.choice(("", "not "))
        return f"{self.of(kind, depth)} {no}in ({', '.join(values)})"

    def _between(self, depth: int) -> str:
        kind = self.draw.choice(KINDS)
        low, high = self.of(kind, 0), self.of(kind, 0)
        return f"{self.of(kind, depth)} {self.draw.choice(('', 'not '))}between {low} and {high}"

    def _matched(self, depth: int) -> str:
        text, no = self.of(TEXTS, depth), self.draw.choice(("", "not "))
        part = self.of(TEXTS, 0)
        return self.draw.choice(
            (
                f"{text} {no}like {self.draw.choice(_PATTERNS)}",
                f"{text} {no}ilike {self.draw.choice(_PATTERNS)}",
                f"{text} {no}rlike {self.draw.choice(_REGEXES)}",
                f"startswith({text}, {part})",
                f"endswith({text}, {part})",
                f"contains({text}, {part})",
                "bin = X'61'",
                f"bin {self.draw.choice(_COMPARES)} {part}",
            )
        )

    def _tested(self, depth: int) -> str:
        kind = self.draw.choice(KINDS)
        of, no, truth = self.of(kind, depth), self.draw.choice(("", "not ")), self.of(TRUTHS, depth)
        return self.draw.choice(
            (
                f"{of} is {no}null",
                f"isnull({of})",
                f"isnan({self.of(NUMBERS, depth)})",
                f"({truth}) is {no}true",
                f"({truth}) is {no}false",
                f"{of} is {no}distinct from {self.of(kind, depth)}",
                f"cast({self.of(NUMBERS, depth)} as boolean)",
                f"cast({self.of(TEXTS, depth)} as boolean)",
            )
        )

    def _joined(self, depth: int) -> str:
        one, other = self.of(TRUTHS, depth), self.of(TRUTHS, depth)
        return self.draw.choice(
            (f"{one} and {other}", f"{one} or {other}", f"not {one}", f"! {one}")
        )


def expressions(seed: int, count: int) -> list[str]:
    """Return different expressions, the same for the same seed; most are conditions."""
    draw = Random(seed)
    made = Expressions(draw)
    found: dict[str, None] = {}
    while len(found) < count:
        kind = TRUTHS if draw.random() < 0.5 else draw.choice(KINDS)
        found[made.of(kind, draw.randrange(1, 4))] = None
    return list(found)
