"""Settings of a table's log store, in its properties (``log_store.*``)."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass

from airflow_provider_segtable.core.counted import MIB
from airflow_provider_segtable.core.errors import InvalidInput
from airflow_provider_segtable.core.log_store.bucket import CheckpointPolicy, Limits
from airflow_provider_segtable.planning.properties.property_values import names_of, values_of

PREFIX = "log_store"


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
                raise InvalidInput(f"{PREFIX}.{name} = {value:g} is too low: {least}")

    @staticmethod
    def read(properties: Mapping[str, str]) -> "LogStoreSettings":
        """Return the settings in a table's properties."""
        return LogStoreSettings(**values_of(LogStoreSettings, PREFIX, properties))  # type: ignore[arg-type]

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


PROPERTIES = names_of(LogStoreSettings, PREFIX)
