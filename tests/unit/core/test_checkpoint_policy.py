"""When a log store's service makes a checkpoint."""

import math

import pytest

from airflow_provider_segtable.core.errors import InvalidInput
from airflow_provider_segtable.core.log_store.bucket import (
    NO_FAILURES,
    ON_REQUEST,
    Backlog,
    CheckpointPolicy,
    Due,
    Failures,
    Wait,
    next_step,
)

POLICY = CheckpointPolicy(seconds=10, nbytes=100, records=5)


def backlog(nbytes: int = 1, records: int = 1, since_s: float = 50.0) -> Backlog:
    return Backlog(nbytes=nbytes, records=records, since_s=since_s)


@pytest.mark.parametrize(
    ("waiting", "now_s", "expected"),
    [
        (backlog(), 59.0, Wait(1.0)),
        (backlog(), 60.0, Due("age")),
        (backlog(nbytes=99, records=4), 50.0, Wait(10.0)),
        (backlog(nbytes=100), 50.0, Due("size")),
        (backlog(records=5), 50.0, Due("records")),
        (backlog(nbytes=0, records=0, since_s=0.0), 99.0, Wait(10.0)),
    ],
)
def test_age_size_or_number_make_a_checkpoint_due(
    waiting: Backlog, now_s: float, expected: Due | Wait
) -> None:
    """The bound that is reached first decides; nothing is due while nothing waits."""
    assert next_step(POLICY, waiting, NO_FAILURES, now_s=now_s) == expected


def test_a_request_is_due_at_once() -> None:
    """Even if nothing waits here: what asks is told the version."""
    empty = backlog(nbytes=0, records=0)
    found = next_step(ON_REQUEST, empty, NO_FAILURES, now_s=0.0, requested=True)
    assert found == Due("requested")
    full = backlog(nbytes=1 << 40, records=1 << 40)
    assert next_step(ON_REQUEST, full, NO_FAILURES, now_s=9e9) == Wait(math.inf)


def test_the_pause_after_failures_doubles_up_to_a_bound() -> None:
    """Nothing is tried before its end, whatever waits."""
    pauses = []
    for count in (1, 2, 3, 8, 500):
        failed = Failures(count=count, at_s=100.0)
        step = next_step(POLICY, backlog(nbytes=500), failures=failed, now_s=100.0)
        assert isinstance(step, Wait)
        pauses.append(step.seconds)
        after = 100.0 + step.seconds
        assert next_step(POLICY, backlog(nbytes=500), failed, now_s=after) == Due("size")
    assert pauses == pytest.approx([0.1, 0.2, 0.4, 10.0, 10.0])


def test_bounds_of_nothing_are_refused() -> None:
    """The message names the bound and its value."""
    with pytest.raises(InvalidInput, match="checkpoints after 0 records: give more than 0"):
        CheckpointPolicy(records=0)
