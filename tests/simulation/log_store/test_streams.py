"""Readers of streams and files: each record once and in order; and planted errors, all seen."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import pytest

from airflow_provider_segtable.core.log_store import reading
from airflow_provider_segtable.core.log_store.reading import Behind, Following
from airflow_provider_segtable.log_store.memory_store import MemoryLogReader
from airflow_provider_segtable.table.log_store import tail
from airflow_provider_segtable.table.log_store.tail import BucketTail
from tests.simulation.faults.faulty_storage import Faults
from tests.simulation.log_store.planted import check_seen
from tests.simulation.log_store.scenario import build, build_keyed, small
from tests.simulation.log_store.test_log_store import ALONE, mixed
from tests.simulation.scenario import run
from tests.simulation.world import Shape

Patch = pytest.MonkeyPatch
SEEDS = 4
STREAMS = replace(ALONE, log_readers=0, stream_readers=3)
RESTORED = replace(STREAMS, restorers=1, restores_each=4)
RESTORED_OFTEN = replace(STREAMS, stream_readers=5, restorers=1, restores_each=6)
KEYED = replace(STREAMS, stream_readers=2, sends_each=2, cleaners=1)


def broken(seed: int) -> Faults:
    """Everything that is mixed, and storage and connections that fail."""
    return replace(mixed(seed), error=0.08)


@pytest.mark.parametrize("shape", [STREAMS, RESTORED], ids=["lasting", "restored"])
def test_each_record_is_read_once_and_in_order(shape: Shape) -> None:
    """Over connections that break, services that are replaced, and pauses beyond their memory."""
    with small(1):
        run(build(2, shape, broken(2)))


def test_records_of_a_primary_key_table_are_read_in_order() -> None:
    """As upserts: a range that was read in part from a stream is read whole from files."""
    with small(1):
        run(build_keyed(2, KEYED, broken(2)))


def failed_reads_not_made_again(monkeypatch: Patch) -> None:
    """After an error of the storage the files are taken to be at their end, as they once were."""
    right = BucketTail._from_files

    def kept(follower: BucketTail) -> Any:
        files = follower._files = follower._files or follower._opened_files()
        try:
            return right(follower)
        except Exception:
            follower._files = files
            raise

    monkeypatch.setattr(BucketTail, "_from_files", kept)


def streams_not_sought(monkeypatch: Patch) -> None:
    """A stream goes on where it was, although files were read meanwhile."""
    right = BucketTail._connected

    def unsought(follower: BucketTail) -> Any:
        return follower._reader or right(follower)

    monkeypatch.setattr(BucketTail, "_connected", unsought)


def resets_unheard(monkeypatch: Patch) -> None:
    """A reset is passed on, and the follower goes on behind it."""
    right = reading.followed

    def deaf(at: Following, seen: Any) -> Following:
        return at if isinstance(seen, reading.Reset) else right(at, seen)

    monkeypatch.setattr(tail, "followed", deaf)


def through_of_another_epoch(monkeypatch: Patch) -> None:
    """Ranges that a restore brings back are taken to be read."""
    monkeypatch.setattr(tail, "through_in", lambda _epoch, _position, through: through)
    monkeypatch.setattr(reading, "through_in", lambda _epoch, _position, through: through)


def late_readers_skip(monkeypatch: Patch) -> None:
    """A store gives a reader that is behind its oldest records, in place of saying so."""
    right = MemoryLogReader.read

    def skipping(reader: MemoryLogReader, *, wait_s: float) -> Any:
        found = right(reader, wait_s=wait_s)
        if isinstance(found, Behind) and reader.position is not None:
            reader.seek(replace(reader.position, offset=found.first_available))
            return right(reader, wait_s=wait_s)
        return found

    monkeypatch.setattr(MemoryLogReader, "read", skipping)


PLANTED: Sequence[tuple[Callable[[Patch], None], Shape, int, str]] = (
    (failed_reads_not_made_again, STREAMS, 1, "are kept from"),
    (streams_not_sought, STREAMS, 0, "gap or duplicate"),
    (resets_unheard, RESTORED, 0, "the follower is at"),
    (through_of_another_epoch, RESTORED_OFTEN, 0, "are kept from"),
    (late_readers_skip, STREAMS, 0, "gap or duplicate"),
)


@pytest.mark.parametrize(
    ("plant", "shape", "first", "message"), PLANTED, ids=[each[0].__name__ for each in PLANTED]
)
def test_planted_errors_are_seen(
    plant: Callable[[Patch], None], shape: Shape, first: int, message: str, monkeypatch: Patch
) -> None:
    """A reader finds each of them, in one of a few seeds."""
    plant(monkeypatch)

    def play(seed: int) -> None:
        with small(1):
            run(build(seed, shape, broken(seed)))

    check_seen(play, range(first, first + SEEDS), message)
