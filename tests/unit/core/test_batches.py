"""Batches of a stream that follows a table."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from airflow_provider_segtable.core.errors import InvalidInput
from airflow_provider_segtable.core.log.events import Action, Event
from airflow_provider_segtable.core.log.families.append_events import Appended
from airflow_provider_segtable.core.log.families.change_events import RowsChanged
from airflow_provider_segtable.core.log.families.consumer_events import ConsumerAdvanced
from airflow_provider_segtable.core.log.families.tag_events import Tagged
from airflow_provider_segtable.core.reads.effects import BatchLimits, Step, batch_end
from tests.support.builders import first

STEPS = st.lists(st.tuples(st.integers(0, 5), st.integers(0, 50)), max_size=9).map(
    lambda sizes: [Step(n=10 * i, files=f, size=s) for i, (f, s) in enumerate(sizes)]
)
LIMITS = st.builds(
    BatchLimits,
    versions=st.none() | st.integers(1, 4),
    files=st.none() | st.integers(1, 8),
    size=st.none() | st.integers(1, 80),
)


@given(STEPS, LIMITS)
def test_batches_cover_all_steps_within_their_limits(
    steps: list[Step], limits: BatchLimits
) -> None:
    """Each has at least one step, as many as its limits allow, and none is left out."""
    left, ends = list(steps), []
    while (end := batch_end(left, limits, 1000)) is not None:
        batch = [step for step in left if step.n <= end]
        left = left[len(batch) :]
        ends.append(end)
        size = (len(batch), sum(s.files for s in batch), sum(s.size for s in batch))
        assert len(batch) == 1 or limits.allow(*size)
        assert end == (left[0].n - 1 if left else 1000)
        if left:
            more = [*batch, left[0]]
            grown = (len(more), sum(s.files for s in more), sum(s.size for s in more))
            assert not limits.allow(*grown)
    assert left == []
    assert ends == sorted(ends)


def test_events_that_change_no_row_end_no_batch() -> None:
    """Of deletes, only a change feed has rows."""

    def step(action: Action, *, changes: bool = False) -> Step | None:
        event = Event(n=3, time=9, commit="c", author="a", action=action)
        return Step.of(event, changes=changes)

    came = first(0)
    assert step(Appended(segments=(came,))) == Step(n=3, files=1, size=came.size)
    assert step(Tagged(name="t", n=1)) is None
    assert step(ConsumerAdvanced(name="c", version=1, before=None)) is None
    deleted = RowsChanged(kind="delete", vectors=(), seen=1)
    assert step(deleted, changes=True) is None


def test_limits_below_one_are_refused() -> None:
    """A batch has at least one version."""
    with pytest.raises(InvalidInput, match="at most 0 files: give at least 1"):
        BatchLimits(files=0)
