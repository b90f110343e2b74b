"""Which listed files the log does not name."""

from dataclasses import replace

from airflow_provider_segtable.core.deletion import Deletion
from airflow_provider_segtable.core.log.state import State
from airflow_provider_segtable.core.segment import Segment
from airflow_provider_segtable.ports.storage import Entry
from airflow_provider_segtable.table.log.checkpoint import read_checkpoint, write_checkpoint
from airflow_provider_segtable.table.unnamed_files import unnamed, unnamed_before
from tests.support.builders import created, first

ONE, TWO, LATER = (first(partition) for partition in range(3))
VECTORS = Deletion(n=1, path="deletes/a.vectors", rows=1, checksum="")


def entry(path: str) -> Entry:
    return Entry(path=path, size=1, modified=0)


def with_files(*segments: Segment) -> State:
    state = replace(
        created(), pending_delete=frozenset({"data/going"}), vectors={ONE.id: (VECTORS,)}
    )
    return replace(state, timeline=state.timeline.with_changes(add=segments))


def test_files_of_segments_deletions_and_pending_deletes_are_named() -> None:
    """All others are left, in their order; a packed chunk names its files undecoded."""
    state = read_checkpoint(write_checkpoint(with_files(ONE, TWO)))
    strangers = [entry("data/x"), entry("data/y")]
    known = [ONE.path, TWO.path, VECTORS.path, "data/going"]
    listed = [strangers[0], *map(entry, known), strangers[1]]
    assert unnamed(listed, state) == strangers
    assert [*unnamed_before(listed, state)] == strangers
    assert [*unnamed_before([], state)] == []
    assert [*unnamed_before(listed, created())] == listed


def test_a_file_committed_while_files_are_listed_is_named() -> None:
    """The earlier state does not name it, and the newest does."""
    left = [*unnamed_before([entry(ONE.path), entry(LATER.path)], with_files(ONE))]
    assert left == [entry(LATER.path)]
    assert unnamed(left, with_files(ONE, LATER)) == []
