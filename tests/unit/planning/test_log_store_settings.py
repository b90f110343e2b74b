"""The settings of a log store in a table's properties."""

import pytest

from airflow_provider_segtable.core.counted import MIB
from airflow_provider_segtable.core.errors import InvalidInput
from airflow_provider_segtable.core.log_store.bucket import CheckpointPolicy, Limits
from airflow_provider_segtable.planning.properties import LogStoreSettings


def test_defaults_are_those_of_the_store() -> None:
    """Without properties, limits and policy are the store's own."""
    found = LogStoreSettings.read({"retention.hours": "1"})
    assert (found.buckets, found.limits, found.policy) == (1, Limits(), CheckpointPolicy())


def test_properties_are_read_by_name() -> None:
    """Sizes are MiB, and may be parts of one."""
    found = LogStoreSettings.read(
        {
            "log_store.buckets": "4",
            "log_store.bucket_mb": "0.5",
            "log_store.checkpoint_seconds": "2",
            "log_store.checkpoint_mb": "1",
            "log_store.checkpoint_rows": "10",
            "log_store.kept_checkpoints": "0",
        }
    )
    assert found.buckets == 4
    assert found.limits == Limits(bucket_bytes=MIB // 2, kept_checkpoints=0)
    assert found.policy == CheckpointPolicy(seconds=2, nbytes=MIB, records=10)


@pytest.mark.parametrize(
    ("key", "value", "expected"),
    [
        ("buckets", "0", "log_store.buckets = 0 is too low: more than 0"),
        ("kept_checkpoints", "-1", "log_store.kept_checkpoints = -1 is too low: at least 0"),
        ("checkpoint_seconds", "nan", "checkpoint_seconds = nan is too low"),
        (
            "bucket_kb",
            "1",
            "'log_store.bucket_kb' is not a property: did you mean 'log_store.bucket_mb'",
        ),
    ],
)
def test_wrong_settings_are_refused(key: str, value: str, expected: str) -> None:
    """The message has the property, its value and the bound."""
    with pytest.raises(InvalidInput, match=expected):
        LogStoreSettings.read({f"log_store.{key}": value})
