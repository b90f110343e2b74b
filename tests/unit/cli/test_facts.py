"""What is said about a table, to scripts and to people."""

from dataclasses import replace

import pytest

from airflow_provider_segtable.cli.display.drawing import partitions, short_interval
from airflow_provider_segtable.cli.display.output import Exit, exit_code
from airflow_provider_segtable.core import errors
from airflow_provider_segtable.core.log.events import line
from airflow_provider_segtable.core.log.families.append_events import Appended, Voided
from airflow_provider_segtable.core.log.families.plan_events import PlanAborted
from airflow_provider_segtable.core.segment import ChunkKey, Shard
from airflow_provider_segtable.library.table_facts import segments_facts
from tests.support.builders import CHUNK, after, created, first, merged


def test_an_event_is_summed_up_in_a_line() -> None:
    """Amounts, not ids, are what people look for."""
    segments = (first(0), first(1))
    assert line(Appended(segments=segments)) == "+2 segments, 20 rows, 2.0 KiB in 1 chunk"
    voided = Voided(ids=(CHUNK.segment(3),), reason="no live writer holds them")
    assert line(voided) == "1 id voided: no live writer holds them"
    assert line(PlanAborted(plan_id="p", attempt=None, reason="why")) == "p: why"


def test_partitions_are_listed_as_runs() -> None:
    """Long lists stay short; no list at all means the whole chunk."""
    assert partitions([0, 1, 2, 5, 32768, 32769]) == "0-2, 5, 32768-32769"
    assert partitions([]) == "all"


def test_midnights_are_left_out() -> None:
    """Intervals of whole days read as days."""
    text = "2013-01-01T00:00:00Z/2013-02-01T12:00:00Z"
    assert short_interval(text) == "2013-01-01/2013-02-01T12:00:00Z"


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (errors.SchemaMismatch, Exit.USAGE),
        (errors.TimeOutOfRange, Exit.USAGE),
        (errors.NotATable, Exit.FAILED),
        (errors.ReadOnlyStorage, Exit.FAILED),
        (errors.CoordinatorUnavailable, Exit.MISSING),
        (errors.JavaMissing, Exit.MISSING),
        (errors.LockTimeout, Exit.AGAIN),
        (errors.CommitUnknown, Exit.AGAIN),
    ],
)
def test_exit_codes_tell_the_family(error: type[errors.SegtableError], code: Exit) -> None:
    """A script learns from the code alone whether to fix, to wait, or to run again."""
    assert exit_code(error("text")) is code


def test_promised_keys_of_a_segment() -> None:
    """Scripts read these keys; they are added to, never renamed."""
    state = after(created(), Appended(segments=(first(0),)))
    (found,) = segments_facts("t", state, None, hidden=True)["segments"]
    assert set(found) >= {
        "id",
        "state",
        "interval",
        "partition",
        "root",
        "minor_version",
        "group_size",
        "rows",
        "bytes",
        "path",
    }
    assert found["state"] == "visible"
    assert found["root"] == [0, 1]


def test_the_state_of_a_segment_is_the_timelines() -> None:
    """A full group of an incomplete version is standby, half a group below others overshadowed."""
    newer = ChunkKey(CHUNK.interval, CHUNK.version + 1)
    waiting = replace(first(1, chunk=newer), shard=Shard.first_generation(1, core=2))
    half = replace(
        first(0),
        id=CHUNK.segment(32768),
        shard=Shard(partition=32768, root_start=0, root_end=2, minor_version=1, group_size=2),
    )
    over = merged(32770, [first(0), first(1)], minor_version=2)
    state = after(created(), Appended(segments=(first(0), first(1), half, over, waiting)))
    found = segments_facts("t", state, None, hidden=True)["segments"]
    states = {(each["version"], each["partition"]): each["state"] for each in found}
    assert states == {
        (CHUNK.version, 0): "overshadowed",
        (CHUNK.version, 1): "overshadowed",
        (CHUNK.version, 32768): "overshadowed",
        (CHUNK.version, 32770): "visible",
        (newer.version, 1): "standby",
    }
