"""Publishers beside everybody: every published version is exact, and readers find its files."""

from collections.abc import Iterable
from dataclasses import replace

import pytest

from airflow_provider_segtable.core import publishing
from airflow_provider_segtable.core.errors import SegtableError
from airflow_provider_segtable.core.publishing import ShownFile
from airflow_provider_segtable.core.segment import Grouped, base_groups
from airflow_provider_segtable.core.tables.keyed_kind import PrimaryKey
from airflow_provider_segtable.core.tables.rollup_kind import Rollup
from airflow_provider_segtable.formats.delta import delta_log
from airflow_provider_segtable.formats.delta.delta_target import DeltaTarget
from airflow_provider_segtable.formats.format import Published
from airflow_provider_segtable.formats.formats import FORMATS
from airflow_provider_segtable.formats.iceberg.iceberg_target import IcebergTarget
from airflow_provider_segtable.ports.background import Queue
from airflow_provider_segtable.services import cleaning
from airflow_provider_segtable.table.background import ThreadBackground
from airflow_provider_segtable.table.publishing.publisher import _Publisher as Publisher
from tests.simulation.publishing.scenario import Cast, simulate
from tests.simulation.seeds import beginning_with
from tests.simulation.world import EVERYBODY, Shape
from tests.unit.publishing.plain_format import PlainFormat, PlainTarget

BUSY = Shape(appenders=2, appends_each=3, compactors=2, planners=1, chunks=2, asks=3, changers=2)
CAST = Cast(publishers=3, cleaners=2)
KEYED = Shape(
    appenders=0,
    upserters=2,
    upserts_each=2,
    compactors=1,
    planners=1,
    asks=4,
    restorers=1,
    restores_each=1,
)
ROLLUP = replace(
    EVERYBODY, changes_each=3, overwrites_each=1, restores_each=1, cleaners=0, readers=0
)
SMALL = {"keyed": KEYED, "rollup": ROLLUP}
BEHIND = Cast(lag_s=2.0, pause_s=10.0, publishers=1, overseers=1, cleaners=2)
FEW = Cast(publishers=1, cleaners=1, unpublishers=1, removals_each=1)


@pytest.fixture(autouse=True)
def plain(monkeypatch: pytest.MonkeyPatch) -> None:
    """Publish in the smallest format, too."""
    monkeypatch.setitem(FORMATS, "plain", PlainFormat())  # type: ignore[arg-type]


@pytest.fixture
def alone(monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    """Publish in the smallest format only, which is faster."""
    for name in FORMATS.keys() - {"plain"}:
        monkeypatch.delitem(FORMATS, name)  # type: ignore[arg-type]
    return monkeypatch


def test_seeds_survive() -> None:
    """Whatever dies, sleeps and gets lost, each version is exact and keeps its files."""
    oracles = [simulate(seed) for seed in range(3)]
    assert sum(oracle.versions for oracle in oracles) > 30


@pytest.mark.usefixtures("round_trips")
def test_seeds_survive_where_requests_are_round_trips() -> None:
    """The same where a publisher goes by what it knows, and looks after its put."""
    assert simulate(4, SMALL["keyed"], FEW, "keyed").versions > 1


@pytest.mark.parametrize("kind", ["append", "keyed"])
def test_seeds_survive_in_the_background(kind: str) -> None:
    """The same where processes publish in the background; without faults their lag closes."""
    shape = replace(SMALL.get(kind, BUSY), threads=True)
    assert simulate(3, shape, BEHIND, kind).versions > 5


@pytest.mark.parametrize("kind", [*SMALL])
def test_seeds_of_other_kinds_survive(kind: str) -> None:
    """Base files, and groups that are rolled up perfectly, are published as promised, too."""
    oracles = [simulate(seed, SMALL[kind], FEW, kind) for seed in (1, 2)]
    assert sum(oracle.versions for oracle in oracles) > 5


def test_a_seed_is_played_the_same_after_others() -> None:
    """A cast plays in many worlds, and brings nothing along from the one before."""
    first, again = (simulate(1, SMALL["rollup"], FEW, "rollup") for _ in "12")
    assert first.world.simulation.digest() == again.world.simulation.digest()


@pytest.mark.long
def test_what_a_removal_leaves_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    """Did a publisher not look again, and mend nothing, what it leaves would be in the way."""
    monkeypatch.setattr(Publisher, "_load", load)
    monkeypatch.setattr(Publisher, "_take_back", lambda *_: None)
    monkeypatch.setattr(Publisher, "_switched_off", lambda *_: "")
    monkeypatch.setattr(DeltaTarget, "holds", lambda *_: True)
    monkeypatch.setattr(IcebergTarget, "holds", lambda *_: True)
    monkeypatch.setattr(DeltaTarget, "_needed", needed)
    monkeypatch.setattr(delta_log, "is_misplaced", lambda *_: False)
    assert any(fails(seed) for seed in beginning_with(3, 20))


def load(publisher: Publisher, known: Published | None) -> None:
    """Read the target as it was read before damage was published over."""
    publisher.published = publisher.target.load(known)


def needed(target: DeltaTarget, since: int) -> frozenset[str]:
    """Return what readers need of a log that is whole."""
    retention = target._retention(since)
    return retention.needed_files() if retention else frozenset()


def fails(seed: int) -> bool:
    """Return whether a seed shows the planted error."""
    try:
        simulate(seed)
    except (AssertionError, SegtableError):
        return True
    return False


def caught(first: int, most: int = 20, kind: str = "append") -> bool:
    """Return whether any seed shows the planted error; ``first`` is one that did."""
    shape, cast = SMALL.get(kind, BUSY), FEW if kind in SMALL else CAST
    for seed in beginning_with(first, most):
        try:
            simulate(seed, shape, cast, kind)
        except (AssertionError, SegtableError):
            return True
    return False


def test_ignoring_targets_is_caught(alone: pytest.MonkeyPatch) -> None:
    """Did a cleaner not ask what is published, the files of a head would go."""
    alone.setattr(cleaning, "published_paths", lambda *_: frozenset())
    assert caught(18)


def test_comparing_paths_alone_is_caught(alone: pytest.MonkeyPatch) -> None:
    """Were keys not compared, rows that were deleted since would come back."""
    alone.setattr(ShownFile, "_key", lambda _: "")
    assert caught(0)


def test_putting_over_another_version_is_caught(alone: pytest.MonkeyPatch) -> None:
    """Were a number not taken by put-if-absent, published events would go back."""
    alone.setattr(
        PlainTarget, "create", lambda target, path, data: target.storage.replace(path, data)
    )
    assert caught(1)


def test_taking_log_files_for_base_files_is_caught(alone: pytest.MonkeyPatch) -> None:
    """Were log files published beside base files, a key would have several rows."""
    alone.setattr(PrimaryKey, "shows_base", False)
    assert caught(1, kind="keyed")


def test_forgetting_a_bucket_is_caught(alone: pytest.MonkeyPatch) -> None:
    """Were one bucket's base files not published, its rows would be missing."""

    def others(visible: Iterable[Grouped]) -> tuple[Grouped, ...]:
        return tuple(group for group in base_groups(visible) if group.segments[0].id.bucket)

    alone.setattr(publishing, "base_groups", others)
    assert caught(2, kind="keyed")


def test_publishing_parts_of_groups_is_caught(alone: pytest.MonkeyPatch) -> None:
    """Were a rollup table published that is not rolled up, groups would have several rows."""
    alone.setattr(Rollup, "unpublished", lambda *_: "")
    assert caught(1, kind="rollup")


def test_publishing_deleted_groups_is_caught(alone: pytest.MonkeyPatch) -> None:
    """Were predicates no part of a file's key, groups that were deleted since would stay."""
    alone.setattr(publishing, "_matched", lambda *_: iter(()))
    alone.setattr(ShownFile, "_key", lambda _: "")
    assert caught(10, kind="rollup")


def test_a_background_that_ends_too_early_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    """Did its thread end while a commit waits, what was compacted last would stay published."""

    def awaited(background: ThreadBackground, queue: Queue) -> bool:
        due_s = queue.due_s()
        if due_s is not None and due_s <= 0:
            return True
        background._left(queue)
        return False

    monkeypatch.setattr(ThreadBackground, "_awaited", awaited)
    monkeypatch.delitem(FORMATS, "iceberg")  # type: ignore[arg-type]
    with pytest.raises(AssertionError, match="files that were compacted"):
        simulate(0, BUSY, Cast(lag_s=5.0, publishers=0, cleaners=2))
