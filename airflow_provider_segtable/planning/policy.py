"""Policy: when a table is worth compacting. Names and defaults follow the field.

A policy is read from the table's properties (``segtable table create --property KEY=VALUE``);
unknown or malformed keys are refused by name, because a typo would silently mean a default.
"""

from collections.abc import Mapping
from dataclasses import dataclass, fields

from airflow_provider_segtable.core.errors import InvalidInput

MIB = 1024 * 1024
MINUTE_US = 60_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Policy:
    """When minor compaction pays.

    Attributes:
        target_size: bytes a segment should have (128 MiB, as Amoro).
        small_below: a group is small under this share of the target (0.75).
        oversize_above: a plan's output stays under this share of the target (1.8).
        min_segments: a run of fewer adjacent small segments waits (12) ...
        max_age_minutes: ... unless its oldest is older than this (60).
        tier_ratio: a group larger than this many times the rest of its run is left out, so that
            a few new rows never rewrite a large segment (4).
        skip_offset_minutes: chunks that end later than this before now are left alone (0: none;
            appends never wait for a minor compaction).
        max_plan_bytes: bytes one planner run may ask for (64 GiB).
        max_plans: plans one planner run may ask for (64).
        max_attempts: a plan whose workers died this often is aborted (5).
        retry_aborted_minutes: an aborted plan's inputs rest this long (60).
    """

    target_size: int = 128 * MIB
    small_below: float = 0.75
    oversize_above: float = 1.8
    min_segments: int = 12
    max_age_minutes: float = 60.0
    tier_ratio: float = 4.0
    skip_offset_minutes: float = 0.0
    max_plan_bytes: int = 64 * 1024 * MIB
    max_plans: int = 64
    max_attempts: int = 5
    retry_aborted_minutes: float = 60.0

    def __post_init__(self) -> None:
        """Refuse values that cannot work."""
        for name, least in _LEAST.items():
            value = getattr(self, name)
            if value < least:
                raise InvalidInput(f"policy {name} = {value} is too low: at least {least}")

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
        given: dict[str, float] = {}
        for key, text in properties.items():
            name = key.removeprefix("compaction.")
            if name == key:
                continue
            if name not in known:
                raise InvalidInput(f"{key!r} is no property: known are {', '.join(PROPERTIES)}")
            given[name] = _number(key, text, whole=known[name] in (int, "int"))
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
}

PROPERTIES: tuple[str, ...] = tuple(f"compaction.{field.name}" for field in fields(Policy))
