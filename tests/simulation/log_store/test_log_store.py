"""The log store beside everybody else, and errors planted in its code, each of which is seen."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from random import Random
from typing import Any

import pytest

from airflow_provider_segtable.core.log.state import RecentCommits
from airflow_provider_segtable.core.log_store import manifest
from airflow_provider_segtable.core.log_store.manifest import NO_EPOCHS, BucketManifest
from airflow_provider_segtable.library.log_records import BucketQueue
from airflow_provider_segtable.library.log_writer import TableLogWriter
from airflow_provider_segtable.log_store.buckets import Bucket
from airflow_provider_segtable.services.log_directory import BucketAddress
from airflow_provider_segtable.services.log_store import LogService
from airflow_provider_segtable.table.log_store import checkpointing, tail, union_scan
from tests.simulation.faults.faulty_storage import Faults
from tests.simulation.log_store.planted import check_seen
from tests.simulation.log_store.promises import LEASE_S
from tests.simulation.log_store.scenario import build, build_keyed, shape_of, simulate, small
from tests.simulation.scenario import MAX_STEPS, run
from tests.simulation.swarm import small as few
from tests.simulation.world import Shape

Patch = pytest.MonkeyPatch
SEEDS = 6
ALONE = Shape(
    appenders=0,
    compactors=1,
    planners=1,
    chunks=1,
    log_buckets=1,
    log_stores=2,
    log_writers=2,
    sends_each=3,
    log_readers=2,
)
RESTORED = replace(ALONE, restorers=3, restores_each=4, sends_each=4)
TO_AND_FRO = replace(RESTORED, log_stores=1, restores_each=8, sends_each=6)
"""Restores undo restores, while writers go on and readers follow."""
OWNED = Shape(
    appenders=0,
    compactors=1,
    planners=1,
    chunks=1,
    log_buckets=1,
    log_owners=2,
    sends_each=2,
    live_readers=1,
)
UNDONE = replace(OWNED, log_owners=1, restorers=3, restores_each=4, sends_each=3)
EVERYBODY = replace(
    ALONE,
    appenders=1,
    appends_each=2,
    cleaners=1,
    changers=1,
    alterers=1,
    alterations_each=1,
    restorers=1,
    log_buckets=2,
)
KEYED = replace(
    EVERYBODY, appenders=0, alterers=0, changers=0, upserters=1, sends_each=2, log_buckets=1
)


def mixed(seed: int) -> Faults:
    """Crashes, pauses, requests that arrive late, replies that do not arrive."""
    return Faults(random=Random(seed), delay=0.05, crash=0.006, lost_reply=0.05, late=0.05)


def test_offsets_have_one_content_and_readers_no_gap() -> None:
    """Whatever is restored, compacted, cleaned and altered meanwhile, and whoever dies."""
    with small(1):
        run(build(1, EVERYBODY, mixed(1)))


def test_a_log_store_of_a_primary_key_table() -> None:
    """The table is the merge of the committed records and of all others."""
    with small(1):
        run(build_keyed(1, KEYED, mixed(1)))


@pytest.mark.parametrize("seed", [0, 1])
def test_what_writers_were_promised_is_kept(seed: int) -> None:
    """Over takeovers from living writers and restores, with clocks ten minutes apart."""
    with small(1):
        run(build(seed, (OWNED, UNDONE)[seed], mixed(seed)))


def epochs_not_checked(monkeypatch: Patch) -> None:
    """A commit of an older epoch is admitted."""
    right = BucketManifest.check
    monkeypatch.setattr(
        BucketManifest,
        "check",
        lambda known, new: right(known, replace(new, epoch=known.epoch)),
    )


def starts_not_checked(monkeypatch: Patch) -> None:
    """A range may begin anywhere."""
    right = BucketManifest.check
    monkeypatch.setattr(
        BucketManifest,
        "check",
        lambda known, new: right(known, replace(new, start=known.end, end=known.end + 1)),
    )


def epoch_of_before_a_restore(monkeypatch: Patch) -> None:
    """A restore does not raise the epoch."""
    right = BucketManifest.restored
    monkeypatch.setattr(
        BucketManifest,
        "restored",
        lambda known, *args: replace(right(known, *args), epoch=known.epoch),
    )


def checkpoints_forgotten(monkeypatch: Patch) -> None:
    """The log does not remember the commit ids of checkpoints."""
    right = RecentCommits.__getitem__

    def forgetful(known: RecentCommits, name: str) -> int:
        if name.startswith("log-"):
            raise KeyError(name)
        return right(known, name)

    monkeypatch.setattr(RecentCommits, "__getitem__", forgetful)


def waypoints_thinned_at_random(monkeypatch: Patch) -> None:
    """Waypoints of restores go like others, so readers find ranges that were undone."""
    monkeypatch.setattr(
        manifest,
        "_thinned",
        lambda known: known if len(known) <= manifest.MOST else known[::2],
    )


def events_skipped(monkeypatch: Patch) -> None:
    """The last event before a waypoint is not looked at."""
    right = manifest._last_before
    monkeypatch.setattr(manifest, "_last_before", lambda waypoint: right(waypoint) - 1)


def lineage_lost(monkeypatch: Patch) -> None:
    """Checkpoints of the table's log do not have the lineage."""
    right = manifest._decoded
    monkeypatch.setattr(manifest, "_decoded", lambda body: replace(right(body), lineage=NO_EPOCHS))


def ends_read_before_the_epoch(monkeypatch: Patch) -> None:
    """A writer goes on from the committed end that it read before its epoch began."""
    right = checkpointing.commit

    def early(ports: Any, state: Any, change: Any) -> Any:
        done = right(ports, state, change)
        return replace(done, state=state) if hasattr(done, "state") else done

    monkeypatch.setattr(checkpointing, "commit", early)


def resets_too_late(monkeypatch: Patch) -> None:
    """Two lineages are taken for the same up to the end of the shorter list."""
    monkeypatch.setattr(manifest, "common_end", lambda one, other: min(one.end, other.end))


def epochs_unheard(monkeypatch: Patch) -> None:
    """A store hears of epochs at its checkpoints alone, as it once did."""

    def look(service: LogService) -> None:
        with service.store.confirming(LEASE_S):
            pass

    monkeypatch.setattr(LogService, "look", look)


def no_lease(monkeypatch: Patch) -> None:
    """A store answers however long ago its service has read the log."""
    monkeypatch.setattr(Bucket, "_confirmed", lambda _: True)


def stores_believed(monkeypatch: Patch) -> None:
    """Checkpoints and closes return when the store has nothing more to commit."""
    epochs_unheard(monkeypatch)
    no_lease(monkeypatch)
    monkeypatch.setattr(TableLogWriter, "_forget_committed", lambda _: "")
    monkeypatch.setattr(BucketQueue, "check", lambda _, wait_s: None)  # noqa: ARG005


def claims_shared(monkeypatch: Patch) -> None:
    """A bucket has one claim, which an older writer keeps as long as it lives."""
    monkeypatch.setattr(BucketAddress, "claim_name", property(lambda at: str(at.bucket)))


def losses_unnamed(monkeypatch: Patch) -> None:
    """A writer that is fenced does not say which records are lost."""
    monkeypatch.setattr(TableLogWriter, "lost", property(lambda _: {}))


def strangers_believed(monkeypatch: Patch) -> None:
    """What a store says of a bucket that another one took since hides that one's records."""
    monkeypatch.setattr(tail, "own_statuses", lambda store, _: store.status())


def tails_cut_short(monkeypatch: Patch) -> None:
    """A read with the live tail has the records of one bucket alone."""
    right = union_scan.rehearsed
    monkeypatch.setattr(
        union_scan,
        "rehearsed",
        lambda ports, state, cut: right(
            ports, state, replace(cut, buckets=dict([*cut.buckets.items()][:1]))
        ),
    )


PLANTED: Sequence[tuple[Callable[[Patch], None], Shape, int, str]] = (
    (epochs_not_checked, ALONE, 0, "a fenced service committed"),
    (starts_not_checked, ALONE, 7, "offsets are not dense"),
    (epoch_of_before_a_restore, RESTORED, 0, "do not grow"),
    (checkpoints_forgotten, ALONE, 17, "is kept, but"),
    (waypoints_thinned_at_random, RESTORED, 1, ", not "),
    (events_skipped, RESTORED, 0, "kept from"),
    (lineage_lost, RESTORED, 3, "the records of"),
    (ends_read_before_the_epoch, ALONE, 3, "an append at"),
    (resets_too_late, TO_AND_FRO, 7, "the records of"),
    (epochs_unheard, OWNED, 5, "after its end"),
    (no_lease, UNDONE, 3, "after its end"),
    (stores_believed, UNDONE, 5, "log_owner"),
    (claims_shared, OWNED, 0, "is read to"),
    (losses_unnamed, OWNED, 0, "are lost, and"),
    (strangers_believed, EVERYBODY, 14, "the tail of bucket"),
    (tails_cut_short, EVERYBODY, 1, "include_log"),
)


@pytest.mark.parametrize(
    ("plant", "shape", "first", "message"), PLANTED, ids=[each[0].__name__ for each in PLANTED]
)
def test_planted_errors_are_seen(
    plant: Callable[[Patch], None], shape: Shape, first: int, message: str, monkeypatch: Patch
) -> None:
    """The book or a reader finds each of them, in one of a few seeds."""
    plant(monkeypatch)

    def play(seed: int) -> None:
        with small(1):
            run(build(seed, shape, mixed(seed)))

    check_seen(play, range(first, first + SEEDS), message)


def test_a_fenced_writer_names_what_its_other_buckets_lose() -> None:
    """It lost one of its buckets right after an epoch had begun in which nothing was sent again."""
    world = simulate(1002, few(shape_of(1002), 1002))
    assert world.shape.log_owners


def test_writers_that_take_a_bucket_from_each_other_come_to_an_end() -> None:
    """Each is started anew as soon as it is replaced, without a commit in between."""
    world = simulate(3684, few(shape_of(3684), 3684))
    assert world.simulation.steps < MAX_STEPS / 2
