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
        "l": pa.array(
            [[1, 2], [], None, [None, 3], [-(2**63)], [0, 0, 2], [7], [1, None]],
            pa.list_(pa.int64()),
        ),
        "tags": pa.array([["a", "b"], None, [], [None], ["", "é"], ["a"], ["B", None, "a"], ["x"]]),
        "mp": pa.array(
            [
                [("a", 1), ("b", 2)],
                [],
                None,
                [("a", None)],
                [("", 0)],
                [("é", -1)],
                [("b", 3)],
                [("x", 4), ("a", 5)],
            ],
            pa.map_(pa.string(), pa.int32()),
        ),
        "ps": pa.array(
            [
                [{"a": 1, "b": "x"}, {"a": None, "b": "y"}],
                None,
                [],
                [None],
                [{"a": 5, "b": None}],
                [{"a": 0, "b": "z"}, None],
                [{"a": -2, "b": ""}],
                [{"a": 2, "b": "x"}],
            ],
            pa.list_(pa.struct([("a", pa.int32()), ("b", pa.string())])),
        ),
        "stamp": pa.array(
            [
                *("2026-01-31 23:59:59", "2024-02-29 00:00:00", None, "1969-12-31 12:30:01"),
                *("2026-03-29 02:30:00", "2026-10-25 02:30:00", "2000-01-01 00:00:00"),
                "1999-12-31 23:59:59",
            ]
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
WRITTEN = r"""
s like any ('a%', '%b', '_')
s like all ('%a%', '%')
s ilike any ('A%', 'o%')
s not ilike 'É%'
s ilike '%É%'
s rlike '\\s'
s rlike '(?i)^o.H'
s rlike '^[\\s\\w]+$'
n rlike '^[\\d.-]+$'
stamp rlike '^\\d{4}-\\d{2}'
s rlike '(?i)[a-b]'
n rlike '^\\S+$'
concat_ws('-', s, n, 'z')
concat_ws(n, s, s)
lpad(s, 4, 'xy')
lpad(s, i8, '')
rpad(n, 3)
rpad(s, 5, n)
repeat(s, 2)
repeat(s, i8)
split(s, ' ')[0]
split(stamp, '-')[1]
element_at(split(stamp, ':'), -1)
size(split(n, 'e'))
translate(s, 'aOé', 'xy')
translate(s, 'aa', 'xy')
md5(s)
sha1(bin)
sha2(s, 256)
sha2(s, 0)
crc32(s)
substring_index(stamp, '-', 2)
substring_index(stamp, '-', -1)
substring_index(stamp, '', 1)
substring_index('aaa', 'aa', -1)
substring_index('aaa', 'aa', 1)
btrim(s)
btrim(s, ' a')
octet_length(s)
octet_length(bin)
length(bin)
hex(bin)
hex(s)
try_cast(n as int)
try_cast(n as decimal(3,1))
try_cast(i64 as tinyint)
try_cast(stamp as date)
try_cast(s as timestamp)
try_cast(n as boolean)
try_cast(f64 as bigint)
try_cast(f64 as int)
bigint(n)
smallint(i16)
tinyint(i8)
extract(year from at)
extract(month from d)
extract(week from at)
extract(dow from d)
extract(doy from at)
extract(hour from at)
date_part('day', at)
date_part('QUARTER', d)
date_format(at, 'yyyy-MM-dd')
date_format(at, 'yyyyMMddHHmmss')
date_format(if(year(d) > 1, d, null), 'dd/MM/yyyy')
date_format(if(year(at) > 1, at, null), "yyyy-MM-dd'T'HH:mm:ss")
to_date(stamp, 'yyyy-MM-dd HH:mm:ss')
to_timestamp(stamp, 'yyyy-MM-dd HH:mm:ss')
to_date(left(stamp, 10), 'yyyy-MM-dd')
to_timestamp(left(stamp, 10), 'yyyy-MM-dd')
to_timestamp(stamp)
to_date(stamp)
unix_timestamp(at)
unix_timestamp(d)
unix_seconds(at)
unix_millis(at)
unix_micros(at)
unix_date(d)
timestamp_seconds(i32)
timestamp_millis(i32)
timestamp_micros(i16)
make_date(2024, 2, 29)
make_date(2000 + i8, 2, 28)
make_date(2023, 2, 29)
timestampdiff(HOUR, at, timestamp '2020-01-01')
timestampdiff(DAY, timestamp '2020-01-01 10:00', at)
timestampdiff(MINUTE, timestamp '2020-01-01 10:00', at)
timestampdiff(SECOND, timestamp '2026-01-01', stamp)
timestampdiff(WEEK, d, at)
datediff(HOUR, at, timestamp '2020-01-01')
datediff(DAY, d, at)
dateadd(hour, 5, at)
dateadd(DAY, -3, at)
timestampadd(MINUTE, i8, at)
timestampadd(WEEK, 1, at)
timestampadd(SECOND, 1, stamp)
from_utc_timestamp(stamp, 'Europe/Berlin')
from_utc_timestamp(timestamp '2026-07-01', 'America/New_York')
to_utc_timestamp(timestamp '2026-07-01 10:00', 'Asia/Kolkata')
to_utc_timestamp(timestamp '2026-10-25 02:30', 'Europe/Berlin')
to_utc_timestamp(timestamp '2026-03-29 02:30', 'Europe/Berlin')
pmod(i32, 7)
pmod(i32, -7)
pmod(i8, i16)
pmod(i64, 3)
pmod(-7, 3)
pmod(i8, 2L)
i8 & 3
i32 | i8
i64 ^ 1
~i16
i8 & 1 = 1
i8 & i64 <> 0
i32 & 1 + 1
i8 | 2 & 3
~i8 + 1
equal_null(i8, i32)
equal_null(s, n)
nanvl(f64, 0)
nanvl(f32, 1.5)
zeroifnull(i32)
zeroifnull(m)
nullifzero(i8)
negative(i32)
positive(i32)
negative(i8)
l[0]
get(l, 0)
get(l, 1)
get(l, i8)
get(l, -1)
element_at(l, 1)
element_at(tags, 5)
if(size(l) > 0, element_at(l, -1), null)
if(size(l) > 0, l[0], null)
case when size(tags) > 1 then tags[1] end
element_at(l, 0)
array_contains(l, 2)
array_contains(l, i64)
array_contains(l, 2.0)
array_contains(tags, 'a')
array_contains(tags, s)
array_contains(tags, null)
array_contains(l, '2')
array_contains(tags, 1)
not array_contains(tags, 'a')
size(l)
size(mp)
cardinality(tags)
array_size(l)
size(l) > 1 and l[1] = 2
exists(l, x -> x > 1)
exists(l, x -> x = i64)
exists(tags, t -> t like 'a%')
exists(tags, t -> t is null)
exists(tags, t -> t = s or i8 = 0)
forall(l, x -> x > 0)
forall(tags, x -> x is not null)
forall(l, x -> x % 2 = 0)
exists(ps, p -> p.a > 1)
exists(ps, p -> p.b = 'x' and p.a = 1)
exists(ps, p -> p is null)
exists(l, l -> l > 1)
exists(l, x -> 1 / x > 0)
size(ps) > 0 and ps[0].a = 1
get(ps, 0).b
mp['a']
mp[s]
element_at(mp, 'a')
map_contains_key(mp, 'a')
map_contains_key(mp, s)
map_contains_key(mp, null)
map_keys(mp)
map_values(mp)
array_contains(map_keys(mp), 'b')
exists(map_values(mp), v -> v > 1)
mp['a'] is null
mp['a'] in (1, 5)
l is null
mp is not null
at > timestamp '2026-01-01' - interval 1 day
d >= date '2026-01-01' - 7
at between timestamp '2024-01-01' - interval 2 years and timestamp '2024-01-01' + interval 1 year
i8 in (1, 2.5, 7)
""".strip().splitlines()
"""What users may write, each once."""
_COMPARES = ("=", "==", "<>", "!=", "<", "<=", ">", ">=", "<=>")
_PATTERNS = ("'a%'", r"'%\_'", "'_'", "'O''%e'", r"r'B\\_'", "'%'", "''", r"'\%x%'", "'É%'")
_REGEXES = ("'a'", "'^a$'", "'^[A-Z].*e$'", r"'\\w+'", "'a|b'", "'.'", "'x_$'", r"'(a'", r"'\\bx'")
_WHOLE = ("i8", "i16", "i32", "i64", "st.a", "0", "1", "-1", "2", "3", "7", "300", "2L", "null")
_COLLECTIONS = ("l", "tags", "mp", "ps")
_FORMATS = ("yyyy-MM-dd", "yyyyMMddHHmmss", "dd/MM/yyyy HH:mm", "yyyy-MM-dd HH:mm:ss", "MM")
_ZONES = ("Europe/Berlin", "America/New_York", "Asia/Kolkata", "UTC", "+02:00")
_STEPS = ("YEAR", "MONTH", "WEEK", "DAY", "HOUR", "MINUTE", "SECOND")
_PARTS = ("year", "quarter", "month", "week", "day", "dow", "doy", "hour", "minute")
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
                    self._of_whole,
                    self._taken,
                    self._passed,
                )
            case "text":
                texts = (self._of_text, self._of_text, self._to_text, self._made_text)
                return (*common, *texts, self._made_text)
            case "time":
                return (
                    *common,
                    self._moved(TIMES),
                    self._truncated,
                    self._cast(TIMES, "timestamp"),
                    self._other_time,
                )
            case "date":
                days = (self._day, self._cast(DATES, "date"), self._other_day)
                return (*common, self._moved(DATES), *days)
        tests = (
            self._compared,
            self._compared,
            self._compared,
            self._among,
            self._between,
            self._matched,
        )
        return (*tests, self._tested, self._joined, self._joined, self._quantified)

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

    def _whole(self, depth: int) -> str:
        return self.draw.choice(_WHOLE) if self.draw.random() < 0.8 else self.of(NUMBERS, depth)

    def _of_whole(self, depth: int) -> str:
        one, other, of = self._whole(depth), self._whole(depth), self.of(NUMBERS, depth)
        return self.draw.choice(
            (
                f"pmod({one}, {other})",
                f"{one} {self.draw.choice('&|^')} {other}",
                f"~ {one}",
                f"nanvl({of}, {self.of(NUMBERS, depth)})",
                f"{self.draw.choice(('zeroifnull', 'nullifzero', 'positive'))}({of})",
                f"try_cast({self.of(TEXTS, depth)} as {self.draw.choice(('int', 'double'))})",
            )
        )

    def _taken(self, depth: int) -> str:
        at, key = self._whole(0), self.of(TEXTS, depth)
        return self.draw.choice(
            (
                f"size({self.draw.choice(_COLLECTIONS)})",
                f"cardinality({self.draw.choice(_COLLECTIONS)})",
                f"get(l, {at})",
                f"if(size(l) > {at} and {at} >= 0, l[{at}], {self.of(NUMBERS, depth)})",
                f"if({at} <> 0 and abs({at}) <= size(l), element_at(l, {at}), null)",
                f"mp[{key}]",
                f"element_at(mp, {key})",
                f"get(map_values(mp), {at})",
                f"get(ps, {at}).a",
                f"crc32({key})",
                f"octet_length({self.draw.choice((key, 'bin'))})",
            )
        )

    def _passed(self, depth: int) -> str:
        one, other = self.of(TIMES, depth), self.of(self.draw.choice((DATES, TIMES)), depth)
        return self.draw.choice(
            (
                f"unix_{self.draw.choice(('seconds', 'millis', 'micros', 'timestamp'))}({one})",
                f"unix_date({self.of(DATES, depth)})",
                f"extract({self.draw.choice(_PARTS)} from {other})",
                f"date_part('{self.draw.choice(_PARTS)}', {other})",
                f"timestampdiff({self.draw.choice(_STEPS)}, {one}, {other})",
                f"datediff({self.draw.choice(_STEPS)}, {other}, {one})",
            )
        )

    def _made_text(self, depth: int) -> str:
        one, other, number = self.of(TEXTS, depth), self.of(TEXTS, depth), self._whole(0)
        return self.draw.choice(
            (
                f"concat_ws({one}, {other}, n)",
                f"lpad({one}, {self.draw.randrange(-1, 6)}, {other})",
                f"rpad({one}, {self.draw.randrange(-1, 6)}, {other})",
                f"repeat({one}, {self.draw.randrange(-1, 4)})",
                f"get(split({one}, '{self.draw.choice(('a', ' ', '-', 'x_', 'é'))}'), {number})",
                f"translate({one}, {other}, 'xy')",
                f"{self.draw.choice(('md5', 'sha1', 'sha', 'btrim', 'hex'))}({one})",
                f"sha2({one}, {self.draw.choice((0, 224, 256, 384, 512, 1))})",
                f"substring_index({one}, {other}, {self.draw.randrange(-3, 4)})",
                f"btrim({one}, {other})",
                f"get(tags, {number})",
                f"get(map_keys(mp), {number})",
                f"get(ps, {number}).b",
                f"date_format({self.of(TIMES, depth)}, '{self.draw.choice(_FORMATS)}')",
            )
        )

    def _other_time(self, depth: int) -> str:
        of, zone, unit = self.of(TIMES, depth), self.draw.choice(_ZONES), self.draw.choice(_STEPS)
        return self.draw.choice(
            (
                f"dateadd({unit}, {self._whole(0)}, {of})",
                f"timestampadd({unit}, {self.draw.randrange(-40, 40)}, {of})",
                f"from_utc_timestamp({of}, '{zone}')",
                f"to_utc_timestamp({of}, '{zone}')",
                f"timestamp_{self.draw.choice(('seconds', 'millis', 'micros'))}({self._whole(0)})",
                f"to_timestamp(stamp, '{self.draw.choice(_FORMATS)}')",
                f"try_cast({self.of(TEXTS, depth)} as timestamp)",
            )
        )

    def _other_day(self, depth: int) -> str:
        month, day = self.draw.randrange(14), self.draw.randrange(33)
        return self.draw.choice(
            (
                f"make_date({self._whole(0)}, {month}, {day})",
                f"make_date(year({self.of(DATES, depth)}), 2, {day})",
                f"to_date(stamp, '{self.draw.choice(_FORMATS)}')",
                f"try_cast({self.of(TEXTS, depth)} as date)",
            )
        )

    def _quantified(self, depth: int) -> str:
        """Return a test of an array's or a map's elements, some of them by a lambda."""
        of, number = self.draw.choice(("exists", "forall")), self.of(NUMBERS, depth)
        text, how = self.of(TEXTS, depth), self.draw.choice(_COMPARES)
        test = self.draw.choice(
            (
                f"x {how} {number}",
                f"x + {self._whole(0)} {how} {number}",
                f"x in ({self._whole(0)}, {self._whole(0)})",
                f"x is null or {self.of(TRUTHS, depth)}",
                f"coalesce(x, {number}) {how} {self._whole(0)}",
            )
        )
        words = (f"x {how} {text}", f"x like {self.draw.choice(_PATTERNS)}", f"length(x) {how} 1")
        return self.draw.choice(
            (
                f"{of}(l, x -> {test})",
                f"{of}(map_values(mp), x -> {test})",
                f"{of}(tags, x -> {self.draw.choice(words)})",
                f"{of}(map_keys(mp), x -> {self.draw.choice(words)})",
                f"{of}(ps, x -> x.a {how} {number} or x.b = {text})",
                f"{of}(l, y -> exists(map_values(mp), x -> x {how} y))",
                f"array_contains(l, {number})",
                f"array_contains(tags, {text})",
                f"map_contains_key(mp, {text})",
                f"equal_null({number}, {self._whole(0)})",
                f"{text} like any ({', '.join(self.draw.sample(_PATTERNS, 2))})",
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
