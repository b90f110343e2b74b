"""Policy: the conditions for compaction. Names and defaults follow comparable systems.

1. A policy is read from the table's properties (``segtable table create --property KEY=VALUE``).
   Unknown or malformed keys are refused by name, because a typo would silently select a default.
2. By default small segments are joined. A chunk is sorted or replaced only if that is useful:
   semi-major compaction needs a ``clustering`` or deleted rows, major compaction a cold chunk.

Source of the defaults: Amoro (sizes, counts, ages, share of deleted rows), Druid
(``skipOffsetFromLatest`` P1D, share of what is not compacted yet), CarbonData (levels), Hudi
(attempts).
"""

from collections.abc import Mapping
from dataclasses import dataclass

from airflow_provider_segtable.core.counted import MIB
from airflow_provider_segtable.core.errors import InvalidInput
from airflow_provider_segtable.core.schema import Order
from airflow_provider_segtable.core.time import Cut, Granularity
from airflow_provider_segtable.planning.properties.property_values import names_of, values_of

MINUTE_US = 60_000_000
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
        indexes: ``auto``: plan what indexes lack, and request those of the index policy; ``off``:
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
        granularity = Granularity(self.major_granularity) if self.major_granularity else None
        return Cut(granularity=granularity, buckets=self.major_buckets)

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

PROPERTIES = names_of(Policy, "compaction")
