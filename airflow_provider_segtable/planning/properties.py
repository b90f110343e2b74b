"""Settings: every property that a table may have, with its value and the source of the value.

1. The settings of a family are the fields of a dataclass. Each field is a property
   ``<prefix>.<field>``. Its type is that of the field: whole numbers are ``int``, other numbers
   ``float``, words ``str``.
2. Properties are given by ``segtable table create --property KEY=VALUE``. Unknown or malformed keys
   are refused by name, because a typo would silently select a default.

Policy: the conditions for compaction (``compaction.*``).

3. By default small segments are joined. A chunk is sorted or replaced only if that is useful:
   semi-major compaction needs a ``clustering`` or deleted rows, major compaction a cold chunk.
4. Names and defaults follow comparable systems.

Index policy: the indexes that a table is to have, and when they are built (``index.*``).

5. A key that is no setting names an index; its value is the kind and the columns::

       index.by_tail   column_stats(carrier, tailnum)
       index.tails     bloom_filter(tailnum; rate=0.001)
       index.files     files
       index.keys      record_index

   Settings of the kind follow a semicolon each.
6. Anything else is refused by name, because a typo would silently leave an index out.
7. The planner requests an index once the table is large enough. Then writers feed it; so the
   earlier it is requested, the less there is to build.

Log store: the settings of a table's log store (``log_store.*``).

Publishing: the table formats in which versions are published (``publish.*``).

8. ``publish.NAME`` switches a table format on or off. Every version is then published in it by the
   process that commits it, unless ``publish.on_commit`` is off.
9. Switched off, a published table stays as it is, and grows older.

Retention: how long versions and unnamed files are kept (``retention.*``).

10. A version is kept by time and by number, whichever keeps more. The versions that a consumer has
    yet to read are kept, too, for a bounded time.

Statistics: which reads are recorded, for advice and for the planner (``statistics.*``).

11. Recorded are columns and kinds of tests, never values (``core.reads.read_facts``).

Source of the defaults of compaction: Amoro (sizes, counts, ages, share of deleted rows), Druid
(``skipOffsetFromLatest`` P1D, share of uncompacted data), CarbonData (levels), Hudi (attempts).
Source of the defaults of retention: Hudi's cleaner (24 hours), Paimon's snapshot expiry (at least
10), Iceberg's orphan files (3 days).
"""

import re
from collections.abc import Iterable, Mapping
from dataclasses import asdict, field, fields, replace
from functools import cache
from types import MappingProxyType
from typing import Any, get_type_hints

from airflow_provider_segtable.core.counted import MIB
from airflow_provider_segtable.core.dataclass import dataclass
from airflow_provider_segtable.core.errors import InvalidInput
from airflow_provider_segtable.core.indexes.index_kind import IndexKind
from airflow_provider_segtable.core.indexes.index_state import KINDS, chosen_kind
from airflow_provider_segtable.core.log_store.bucket import CheckpointPolicy, Limits
from airflow_provider_segtable.core.paths import is_name
from airflow_provider_segtable.core.schema import Order, did_you_mean, split_names
from airflow_provider_segtable.core.tables.definition import TableDefinition
from airflow_provider_segtable.core.time import HOUR_US, Cut, Granularity

# Settings as fields of a dataclass
Value = int | float | str


def names_of(settings: Any, prefix: str) -> tuple[str, ...]:
    """Return the properties that a dataclass of settings has."""
    return tuple(f"{prefix}.{name}" for name in _kinds(settings))


def values_of(settings: Any, prefix: str, properties: Mapping[str, str]) -> dict[str, Value]:
    """Return the values that properties give to a dataclass of settings, by field.

    Args:
        settings: a dataclass whose fields are ``int``, ``float`` or ``str``.
        prefix: the first part of its properties' names; others are left to their readers.
        properties: a table's properties.

    Raises:
        InvalidInput: a property is unknown, or no number.
    """
    known = names_of(settings, prefix)
    given: dict[str, Value] = {}
    for key, text in properties.items():
        if not key.startswith(f"{prefix}."):
            continue
        if key not in known:
            raise InvalidInput(
                f"{key!r} is not a property: {did_you_mean(key, known)}known are {', '.join(known)}"
            )
        name = key.removeprefix(f"{prefix}.")
        given[name] = _value(key, text, _kinds(settings)[name])
    return given


@cache
def _kinds(settings: Any) -> Mapping[str, type[Value]]:
    """Return the types of a dataclass's fields; finding them takes as long as reading a file."""
    hints = get_type_hints(settings)
    return {each.name: hints[each.name] for each in fields(settings)}


def _value(key: str, text: str, kind: type[Value]) -> Value:
    if kind is str:
        return text.strip()
    try:
        return kind(text)
    except ValueError:
        noun = "a whole number" if kind is int else "a number"
        raise InvalidInput(f"property {key} = {text!r} is not {noun}") from None


# Policy of compaction
AUTO, OFF = "auto", "off"
LATEST, NOW = "latest", "now"


@dataclass(frozen=True, slots=True, kw_only=True)
class Policy:
    """The conditions for compaction; defaults in parentheses.

    Attributes:
        target_size: target size of a segment in bytes (128 MiB, as Amoro).
        small_below: a group below this share of the target is small (0.75).
        oversize_above: a plan's output stays below this share of the target (1.8).
        min_segments: minimum number of adjacent small segments for a minor compaction (12) ...
        max_age_minutes: ... unless the oldest is older than this (60).
        tier_ratio: a group larger than this many times the rest of its run is left out, so that
            a few new rows never rewrite a large segment (4).
        skip_offset_minutes: no compaction includes chunks that end less than this before
            ``skip_offset_from`` (0: no chunk is excluded).
        skip_offset_from: the start of the skip offset: ``latest`` is the table's latest event
            time, which also suits a table that is loaded late; ``now`` is the wall clock (latest).
        max_plan_bytes: bytes that one planner run may request (64 GiB).
        max_plans: plans that one planner run may request (64).
        max_attempts: a plan is aborted after this many dead workers (5).
        retry_aborted_minutes: an aborted plan's inputs rest this long (60).
        deleted_share: rewrite segments if this share of their rows is deleted (0.1); 0 means any
            deleted row.
        deleted_predicates: in a rollup table, rewrite segments if this many predicate deletes are
            pending for them (1: at once).
        clustering: sort order of semi-major and major compaction, e.g. ``carrier,origin`` or
            ``zorder(carrier,origin)``; empty means event time ("").
        semi_major: ``auto``: if it is due; ``off``: never (auto).
        semi_major_unclustered: sort a chunk if this share of its bytes is not sorted (0.5) ...
        semi_major_interval_minutes: ... and at most once in this time (60).
        major: ``auto``: if it is due; ``off``: never (auto).
        major_after_minutes: a chunk is cold, and may be replaced by a new version, this long after
            its end and after the first segment to tidy was written (1440, Druid's P1D).
        major_unclustered: replace a cold chunk if this share of its bytes is not sorted (0.1).
        major_granularity: new granularity of cold chunks: hour, day, week, month, year or all;
            empty means unchanged ("").
        major_buckets: new number of buckets of cold chunks of a primary-key table; 0 means
            unchanged (0).
        indexes: ``auto``: plan lacking time, and request indexes of the index policy; ``off``:
            never (auto).
    """

    target_size: int = 128 * MIB
    small_below: float = 0.75
    oversize_above: float = 1.8
    min_segments: int = 12
    max_age_minutes: float = 60.0
    tier_ratio: float = 4.0
    skip_offset_minutes: float = 0.0
    skip_offset_from: str = LATEST
    max_plan_bytes: int = 64 * 1024 * MIB
    max_plans: int = 64
    max_attempts: int = 5
    retry_aborted_minutes: float = 60.0
    deleted_share: float = 0.1
    deleted_predicates: int = 1
    clustering: str = ""
    semi_major: str = AUTO
    semi_major_unclustered: float = 0.5
    semi_major_interval_minutes: float = 60.0
    major: str = AUTO
    major_after_minutes: float = 1440.0
    major_unclustered: float = 0.1
    major_granularity: str = ""
    major_buckets: int = 0
    indexes: str = AUTO

    def __post_init__(self) -> None:
        """Refuse invalid values."""
        for name, least in _LEAST.items():
            value = getattr(self, name)
            if not value >= least:
                raise InvalidInput(f"policy {name} = {value} is too low: at least {least}")
        for name in ("deleted_share", "semi_major_unclustered", "major_unclustered"):
            if getattr(self, name) > 1.0:
                raise InvalidInput(f"policy {name} = {getattr(self, name)} is a share: at most 1")
        for name, words in _WORDS.items():
            if getattr(self, name) not in words:
                known = ", ".join(word or "nothing" for word in words)
                raise InvalidInput(
                    f"policy {name} = {getattr(self, name)!r} is unknown: choose one of {known}"
                )
        try:
            order = Order.given(self.clustering)
        except InvalidInput as error:
            raise InvalidInput(f"policy clustering: {error}") from None
        object.__setattr__(self, "clustering", str(order))

    @property
    def cut(self) -> Cut:
        """Return the new division of cold chunks."""
        return _cut(self.major_granularity, self.major_buckets)

    @property
    def small_size(self) -> float:
        """Return the size in bytes below which a group is small."""
        return self.small_below * self.target_size

    @property
    def largest_output(self) -> float:
        """Return the upper limit of a plan's output in bytes."""
        return self.oversize_above * self.target_size

    @staticmethod
    def read(properties: Mapping[str, str]) -> "Policy":
        """Return the policy in a table's properties (``compaction.*``)."""
        return Policy(**values_of(Policy, "compaction", properties))  # type: ignore[arg-type]


@cache
def _cut(granularity: str, buckets: int) -> Cut:
    return Cut(granularity=Granularity(granularity) if granularity else None, buckets=buckets)


_LEAST: Mapping[str, float] = {
    "target_size": 1,
    "small_below": 0.0,
    "oversize_above": 1.0,
    "min_segments": 2,
    "max_age_minutes": 0.0,
    "tier_ratio": 1.0,
    "skip_offset_minutes": 0.0,
    "max_plan_bytes": 1,
    "max_plans": 1,
    "max_attempts": 1,
    "retry_aborted_minutes": 0.0,
    "deleted_share": 0.0,
    "deleted_predicates": 1,
    "semi_major_unclustered": 0.0,
    "semi_major_interval_minutes": 0.0,
    "major_after_minutes": 0.0,
    "major_unclustered": 0.0,
    "major_buckets": 0,
}

_WORDS: Mapping[str, tuple[str, ...]] = {
    "skip_offset_from": (LATEST, NOW),
    "semi_major": (AUTO, OFF),
    "major": (AUTO, OFF),
    "indexes": (AUTO, OFF),
    "major_granularity": ("", *(granularity.value for granularity in Granularity)),
}

COMPACTION_PROPERTIES = names_of(Policy, "compaction")


# Index policy
INDEX_PREFIX = "index"

_SETTING = r"(?:;\s*\w+\s*=[^();]*)"
_FORM = re.compile(rf"(?P<kind>\w+)\s*(?:\((?P<columns>[^();]*)(?P<settings>{_SETTING}*)\))?")
_EXAMPLES = "files, column_stats(a, b) or bloom_filter(a; rate=0.01)"


@dataclass(frozen=True, slots=True, kw_only=True)
class IndexSettings:
    """When indexes of the policy are built; defaults in parentheses.

    Attributes:
        min_files: request an index once the table has this many files (0) ...
        min_bytes: ... and this many bytes (0).
        timeout_minutes: a run of an index begins no further piece after this time, and pauses (60).
    """

    min_files: int = 0
    min_bytes: int = 0
    timeout_minutes: float = 60.0

    def __post_init__(self) -> None:
        """Refuse invalid values."""
        for name, value in asdict(self).items():
            if not value >= 0:
                raise InvalidInput(f"{INDEX_PREFIX}.{name} = {value} is too low: at least 0")

    @staticmethod
    def read(properties: Mapping[str, str]) -> "IndexSettings":
        """Return the settings in a table's properties."""
        own = {key: text for key, text in properties.items() if key in INDEX_PROPERTIES}
        return IndexSettings(**values_of(IndexSettings, INDEX_PREFIX, own))  # type: ignore[arg-type]


INDEX_PROPERTIES = names_of(IndexSettings, INDEX_PREFIX)


@dataclass(frozen=True, slots=True, kw_only=True)
class WishedIndex:
    """An index that the policy asks for; its columns are the table's at the time of a plan."""

    name: str
    text: str
    kind: str
    columns: tuple[str, ...] = ()
    settings: Mapping[str, str] = field(default_factory=dict)

    @property
    def key(self) -> str:
        """Return the property."""
        return f"{INDEX_PREFIX}.{self.name}"

    def bound(self, table: TableDefinition) -> IndexKind:
        """Return the kind of the index, bound to a table's columns.

        Raises:
            InvalidInput: the table cannot be indexed so; the message names the property.
        """
        try:
            return chosen_kind(self.kind, table, columns=self.columns, settings=self.settings)
        except InvalidInput as error:
            raise InvalidInput(f"property {self.key} = {self.text!r}: {error}") from None


def wished_indexes(properties: Mapping[str, str]) -> tuple[WishedIndex, ...]:
    """Return the indexes of a table's properties, in their order.

    Raises:
        InvalidInput: a value names no index; the message names the property and shows the form.
    """
    return tuple(_wish(key, text) for key, text in properties.items() if names_index(key))


def names_index(key: str) -> bool:
    """Return whether a property names an index of the policy."""
    return key.startswith(f"{INDEX_PREFIX}.") and key not in INDEX_PROPERTIES


def check_index_policy(table: TableDefinition) -> None:
    """Refuse an index policy that is malformed, or does not fit the table.

    Raises:
        InvalidInput: with the property, its value and the way out.
    """
    IndexSettings.read(table.properties)
    for wish in wished_indexes(table.properties):
        wish.bound(table)


def _wish(key: str, text: str) -> WishedIndex:
    name, found = key.removeprefix(f"{INDEX_PREFIX}."), _FORM.fullmatch(text.strip())
    if not is_name(name):
        raise InvalidInput(
            f"property {key!r} names no index: use letters, digits, '.', '_' and '-' after "
            f"'{INDEX_PREFIX}.', at most 100"
        )
    if found is None or found["kind"] not in KINDS:
        raise InvalidInput(
            f"property {key} = {text!r} is not an index: write e.g. {_EXAMPLES}; settings are "
            f"{', '.join(INDEX_PROPERTIES)}"
        )
    columns = split_names(found["columns"] or "")
    return WishedIndex(
        name=name,
        text=text,
        kind=found["kind"],
        columns=() if columns == ("",) else columns,
        settings=_settings(key, found["settings"] or ""),
    )


def _settings(key: str, text: str) -> Mapping[str, str]:
    """Return the settings of an index by their names, from ``; name=value; ...``."""
    pairs = [each.partition("=") for each in text.split(";")[1:]]
    found = {name.strip(): value.strip() for name, _, value in pairs}
    if len(found) < len(pairs):
        raise InvalidInput(f"property {key}: {text.strip('; ')!r} repeats a setting: give it once")
    return found


# Log store
LOG_STORE_PREFIX = "log_store"


@dataclass(frozen=True, slots=True, kw_only=True)
class LogStoreSettings:
    """Settings of a log store; defaults in parentheses.

    Attributes:
        buckets: number of buckets (1): each has one writer at a time.
        bucket_mb: a bucket buffers this many MiB (64). Writers wait when so much is uncommitted.
        checkpoint_seconds: commit when the oldest record has waited for so many seconds (10) ...
        checkpoint_mb: ... or when this many MiB wait in all buckets together (32) ...
        checkpoint_rows: ... or this many rows (1,000,000).
        lease_seconds: writers are answered as long as the table's log was read so many seconds
            ago (10): so long a writer may not know that it was replaced.
        kept_checkpoints: keep the records of the last checkpoints in memory for readers (2), as
            long as there is room.
    """

    buckets: int = 1
    bucket_mb: float = 64.0
    checkpoint_seconds: float = 10.0
    checkpoint_mb: float = 32.0
    checkpoint_rows: int = 1_000_000
    lease_seconds: float = 10.0
    kept_checkpoints: int = 2

    def __post_init__(self) -> None:
        """Refuse invalid values."""
        for name, value in asdict(self).items():
            low = value < 0 if name == "kept_checkpoints" else not value > 0
            if low:
                least = "at least 0" if name == "kept_checkpoints" else "more than 0"
                raise InvalidInput(f"{LOG_STORE_PREFIX}.{name} = {value:g} is too low: {least}")

    @staticmethod
    def read(properties: Mapping[str, str]) -> "LogStoreSettings":
        """Return the settings in a table's properties."""
        return LogStoreSettings(**values_of(LogStoreSettings, LOG_STORE_PREFIX, properties))  # type: ignore[arg-type]

    @property
    def limits(self) -> Limits:
        """Return how much a bucket may buffer."""
        return Limits(
            bucket_bytes=int(self.bucket_mb * MIB), kept_checkpoints=self.kept_checkpoints
        )

    @property
    def policy(self) -> CheckpointPolicy:
        """Return when checkpoints are made."""
        return CheckpointPolicy(
            seconds=self.checkpoint_seconds,
            nbytes=self.checkpoint_mb * MIB,
            records=self.checkpoint_rows,
        )


LOG_STORE_PROPERTIES = names_of(LogStoreSettings, LOG_STORE_PREFIX)


# Publishing
PUBLISH_PREFIX = "publish"
ON = "on"

_PUBLISH_WORDS = {ON: True, OFF: False, "true": True, "false": False}
_FORMATS = ("delta", "iceberg")
_MOST_LAG_S = 3600


@dataclass(frozen=True, slots=True, kw_only=True)
class PublishSettings:
    """In which table formats versions are published, and when; defaults in parentheses.

    Attributes:
        delta: ``on`` publishes as Delta Lake (off).
        iceberg: ``on`` publishes as Apache Iceberg (off).
        on_commit: ``on`` publishes after commits (on); ``off`` when ``publish`` is called.
        lag_seconds: longest time from a commit until its version, or a newer one, is published
            (5). 0 publishes each version before its commit returns.
        iceberg_catalog: name of the pyiceberg catalog that the Iceberg table is registered in.
        iceberg_table: its identifier there, ``namespace.table``.
    """

    delta: str = OFF
    iceberg: str = OFF
    on_commit: str = ON
    lag_seconds: float = 5.0
    iceberg_catalog: str = ""
    iceberg_table: str = ""

    def __post_init__(self) -> None:
        """Refuse invalid values."""
        for name in (*_FORMATS, "on_commit"):
            _switched(name, getattr(self, name))
        if not 0 <= self.lag_seconds <= _MOST_LAG_S:
            raise InvalidInput(
                f"property {PUBLISH_PREFIX}.lag_seconds = {self.lag_seconds:g} is not between 0 "
                f"and {_MOST_LAG_S}: write how many seconds readers may be behind, e.g. 5"
            )
        if bool(self.iceberg_catalog) != bool(self.iceberg_table):
            raise InvalidInput(
                f"{PUBLISH_PREFIX}.iceberg_catalog = {self.iceberg_catalog!r} and "
                f"{PUBLISH_PREFIX}.iceberg_table = {self.iceberg_table!r} go together: "
                "set both, or none"
            )

    @staticmethod
    def read(properties: Mapping[str, str]) -> "PublishSettings":
        """Return the settings in a table's properties."""
        return PublishSettings(**values_of(PublishSettings, PUBLISH_PREFIX, properties))  # type: ignore[arg-type]

    @property
    def formats(self) -> tuple[str, ...]:
        """Return the names of the formats that are switched on."""
        return tuple(name for name in _FORMATS if _switched(name, getattr(self, name)))

    @property
    def after_commits(self) -> bool:
        """Return whether commits are published by their authors."""
        return _switched("on_commit", self.on_commit)


PUBLISH_PROPERTIES = names_of(PublishSettings, PUBLISH_PREFIX)


def property_of(name: str) -> str:
    """Return the property that switches a format on."""
    return f"{PUBLISH_PREFIX}.{name}"


def _switched(name: str, text: str) -> bool:
    found = _PUBLISH_WORDS.get(text.strip().lower())
    if found is None:
        raise InvalidInput(f"property {PUBLISH_PREFIX}.{name} = {text!r} is neither on nor off")
    return found


# Retention


@dataclass(frozen=True, slots=True, kw_only=True)
class Retention:
    """Retention settings; defaults in parentheses.

    Attributes:
        hours: keep every version that was the newest at some time in this many hours (24) ...
        versions: ... and this many newest versions, whatever their age (10).
        orphan_hours: keep files that the log does not name for this long (72), since a writer may
            be about to commit them.
        consumer_hours: keep the versions from a consumer's position on, until it has left a change
            of rows unread for this many hours (168).
        tombstone_hours: in a primary-key table, keep the record that a key was deleted for this
            long (168), so that a late row with an older ordering value does not bring it back.
    """

    hours: float = 24.0
    versions: int = 10
    orphan_hours: float = 72.0
    consumer_hours: float = 168.0
    tombstone_hours: float = 168.0

    def __post_init__(self) -> None:
        """Refuse invalid values."""
        for name, value in asdict(self).items():
            least = 1 if name == "versions" else 0
            if not value >= least:
                raise InvalidInput(f"retention {name} = {value} is too low: at least {least}")

    @staticmethod
    def read(properties: Mapping[str, str]) -> "Retention":
        """Return the retention in a table's properties (``retention.*``)."""
        return Retention(**values_of(Retention, "retention", properties))  # type: ignore[arg-type]

    def of_before(self, age_us: int, events: int) -> "Retention":
        """Return the retention that keeps now what this one kept some time and events ago.

        Args:
            age_us: the time since then, in microseconds.
            events: the number of events since then.
        """
        hours = max(0, age_us) / HOUR_US
        return replace(
            self,
            hours=self.hours + hours,
            orphan_hours=self.orphan_hours + hours,
            consumer_hours=self.consumer_hours + hours,
            versions=self.versions + max(0, events),
        )


RETENTION_PROPERTIES = names_of(Retention, "retention")


# Statistics
STATISTICS_PREFIX = "statistics"
SAMPLED, ALL = "sampled", "all"


@dataclass(frozen=True, slots=True, kw_only=True)
class StatisticsSettings:
    """Settings of the statistics about reads; defaults in parentheses.

    Attributes:
        reads: which reads leave facts beside the log: ``off``, ``sampled`` (one in ten) or ``all``
            (off). Columns and kinds of tests are kept, never values.
        hours: cleaning deletes facts that are older than this (168).
    """

    reads: str = OFF
    hours: float = 168.0

    def __post_init__(self) -> None:
        """Refuse invalid values."""
        if self.reads not in {OFF, SAMPLED, ALL}:
            raise InvalidInput(
                f"property {STATISTICS_PREFIX}.reads = {self.reads!r} is unknown: choose one of "
                f"{OFF}, {SAMPLED}, {ALL}"
            )
        if not self.hours >= 0:
            raise InvalidInput(
                f"property {STATISTICS_PREFIX}.hours = {self.hours:g} is too low: at least 0"
            )

    @staticmethod
    def read(properties: Mapping[str, str]) -> "StatisticsSettings":
        """Return the settings in a table's properties."""
        return StatisticsSettings(
            **values_of(StatisticsSettings, STATISTICS_PREFIX, properties)  # type: ignore[arg-type]
        )


READS_SAMPLED = 10
"""One in so many reads is recorded if reads are sampled."""
_SHARES: Mapping[str, float] = {SAMPLED: 1 / READS_SAMPLED, ALL: 1.0}


def share_of_reads(properties: Mapping[str, str]) -> float:
    """Return the share of reads to record; a word that is unknown here records none."""
    return _SHARES.get(properties.get(f"{STATISTICS_PREFIX}.reads", OFF).strip(), 0.0)


STATISTICS_PROPERTIES = names_of(StatisticsSettings, STATISTICS_PREFIX)


# All settings of a table
DEFAULT, CREATION = "default", "creation"

FAMILIES: Mapping[str, Any] = MappingProxyType(
    {
        "compaction": Policy(),
        "retention": Retention(),
        INDEX_PREFIX: IndexSettings(),
        LOG_STORE_PREFIX: LogStoreSettings(),
        PUBLISH_PREFIX: PublishSettings(),
        STATISTICS_PREFIX: StatisticsSettings(),
    }
)
"""The properties' families, with their defaults; any other property ``index.NAME`` is an index."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Setting:
    """One property; ``source`` is ``default``, ``creation`` or ``event n``."""

    key: str
    value: str
    source: str


def settings(table: TableDefinition) -> tuple[Setting, ...]:
    """Return the properties of a table: first the set ones, then all defaults."""
    given = (
        Setting(key=key, value=value, source=_source(table, key))
        for key, value in table.properties.items()
    )
    missing = (each for each in unset_settings() if each.key not in table.properties)
    return (*given, *missing)


def _source(table: TableDefinition, key: str) -> str:
    n = table.property_events.get(key)
    return CREATION if n is None else f"event {n}"


def unset_settings() -> Iterable[Setting]:
    """Yield all properties with their defaults."""
    for family, default in FAMILIES.items():
        for each in fields(default):
            value = getattr(default, each.name)
            shown = f"{value:g}" if isinstance(value, float) else str(value)
            yield Setting(key=f"{family}.{each.name}", value=shown, source=DEFAULT)
