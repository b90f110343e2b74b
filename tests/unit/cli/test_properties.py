"""Properties given for one run of the planner."""

import pytest

from airflow_provider_segtable.cli.commands.plan_command import policy_of
from airflow_provider_segtable.core.errors import InvalidInput


def test_properties_of_a_run_count_over_the_tables() -> None:
    """Of compaction; those of retention are known, and mean nothing to a plan."""
    given = ["compaction.deleted_share=0.3", "retention.hours=1"]
    policy = policy_of({"compaction.deleted_share": "0.2", "compaction.min_segments": "5"}, given)
    assert (policy.deleted_share, policy.min_segments) == (0.3, 5)


@pytest.mark.parametrize("given", ["retention.hour=1", "compaction.deleted=0.3", "min_segment=2"])
def test_unknown_properties_of_a_run_are_refused(given: str) -> None:
    """A typo would silently mean a default."""
    with pytest.raises(InvalidInput, match="is not a property: known are"):
        policy_of({}, [given])
