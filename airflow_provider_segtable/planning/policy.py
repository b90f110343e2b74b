"""Policy: when a table is worth compacting. Names and defaults follow the field.

1. A policy is read from the table's properties (``segtable table create --property KEY=VALUE``);
   unknown or malformed keys are refused by name, because a typo would silently mean a default.
2. By default small segments are joined, and a chunk is sorted or replaced only where that gains
   something: semi-major needs a ``clustering``, major a chunk that has gone cold.

Source of the defaults: Amoro (sizes, counts, ages, share of deleted rows), Druid
(``skipOffsetFromLatest`` P1D, share of what is not compacted yet), CarbonData (levels), Hudi
(attempts).
"""

from collections.abc import Mapping
from dataclasses import dataclass, fields

from airflow_provider_segtable.core.errors import InvalidInput
from airflow_provider_segtable.core.tables.clustering import Order
from airflow_provider_segtable.core.time.interval import Granularity

MIB = 1024 * 1024
MINUTE_US = 60_000_000
AUTO, OFF = "auto", "off"
LATEST, NOW = "latest", "now"


@dataclass(frozen=True, slots=True, kw_only=True)
class Policy:
    """When compaction pays.

    Attributes:
        target_size: bytes a segment should have (128 MiB, as Amoro).
        small_below: a group is small under this share of the target (0.75).
        oversize_above: a plan's output stays under this share of the target (1.8).
        min_segments: a run of fewer adjacent small segments waits (12) ...
        max_age_minutes: ... unless its oldest is older than this (60).
        tier_ratio: a group larger than this many times the rest of its run is left out, so that
            a few new rows never rewrite a large segment (4).
        skip_offset_minutes: chunks that end later than this before ``skip_offset_from`` are left
            alone by every compaction (0: none is).
        skip_offset_from: ``latest``: the offset counts back from the latest event time of the
            table, so that a table which is loaded late keeps its hot end; ``now``: from the
            wall clock (latest).
        max_plan_bytes: bytes one planner run may ask for (64 GiB).
        max_plans: plans one planner run may ask for (64).
        max_attempts: a plan whose workers died this often is aborted (5).
        retry_aborted_minutes: an aborted plan's inputs rest this long (60).
        deleted_share: segments are rewritten once this share of their rows is deleted (0.1); with
            0 for any deleted row.
        deleted_predicates: in a rollup table, segments are rewritten once so many deletions by
            predicate wait for them, whatever they delete (1: at once).
        clustering: how semi-major and major compaction sort rows, e.g. ``carrier,origin`` or
            ``zorder(carrier,origin)``; by event time if empty ("").
        semi_major: ``auto``: where ``clustering`` is given and it pays; ``off``: never (auto).
        semi_major_unclustered: a chunk is sorted once this share of its bytes is not (0.5) ...
        semi_major_interval_minutes: ... and at most once in this time (60).
        major: ``auto``: where it pays; ``off``: never (auto).
        major_after_minutes: a chunk is cold, and may be replaced by a new version, this long after
            its end and after what there is to tidy was written (1440, Druid's P1D).
        major_unclustered: in a cold chunk, this share of bytes not sorted is enough (0.1).
        major_granularity: cut cold chunks anew: hour, day, week, month, year or all; as they are
            if empty ("").
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

    def __post_init__(self) -> None:
        """Refuse values that cannot work."""
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
                raise InvalidInput(f"policy {name} = {getattr(self, name)!r} is none of {known}")
        try:
            order = Order.parse(self.clustering)
        except InvalidInput as error:
            raise InvalidInput(f"policy clustering: {error}") from None
        object.__setattr__(self, "clustering", str(order))

    @property
    def cut(self) -> Granularity | None:
        """Return how cold chunks are to be cut; None: as they are."""
        return Granularity(self.major_granularity) if self.major_granularity else None

    @property
    def small_size(self) -> float:
        """Return the size in bytes under which a group is small."""
        return self.small_below * self.target_size

    @property
    def largest_output(self) -> float:
        """Return the size in bytes that a plan's output stays under."""
        return self.oversize_above * self.target_size

    @staticmethod
    def read(properties: Mapping[str, str]) -> "Policy":
        """Return the policy that a table's properties (``compaction.*``) give."""
        known = {field.name: field.type for field in fields(Policy)}
        given: dict[str, float | str] = {}
        for key, text in properties.items():
            name = key.removeprefix("compaction.")
            if name == key:
                continue
            if name not in known:
                raise InvalidInput(f"{key!r} is no property: known are {', '.join(PROPERTIES)}")
            words = known[name] in (str, "str")
            whole = known[name] in (int, "int")
            given[name] = text.strip() if words else _number(key, text, whole=whole)
        return Policy(**given)  # type: ignore[arg-type]


def _number(key: str, text: str, *, whole: bool) -> float:
    try:
        return int(text) if whole else float(text)
    except ValueError:
        kind = "a whole number" if whole else "a number"
        raise InvalidInput(f"property {key} = {text!r} is not {kind}") from None


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
}

_WORDS: Mapping[str, tuple[str, ...]] = {
    "skip_offset_from": (LATEST, NOW),
    "semi_major": (AUTO, OFF),
    "major": (AUTO, OFF),
    "major_granularity": ("", *(granularity.value for granularity in Granularity)),
}

PROPERTIES: tuple[str, ...] = tuple(f"compaction.{field.name}" for field in fields(Policy))
