"""Changes that another process of the host puts: claimed, settled, or left to their authors."""

import os
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, replace
from pathlib import Path
from threading import Event

import pytest

from airflow_provider_segtable.core.errors import LockLost
from airflow_provider_segtable.core.log.families.tag_events import Tagged
from airflow_provider_segtable.core.log.joint_file import (
    Stamped,
    decode_offer,
    encode_offer,
    join_offered,
)
from airflow_provider_segtable.core.log.log_paths import TIMELINE
from airflow_provider_segtable.data.open_files import MemoryFiles
from airflow_provider_segtable.ports.storage import Turn
from airflow_provider_segtable.storage import LocalStorage
from airflow_provider_segtable.table.committer import Committed, Unknown, commit
from airflow_provider_segtable.table.context import TableContext
from airflow_provider_segtable.table.log.event_log import EventLog
from airflow_provider_segtable.table.table import create_table
from tests.support.builders import BASE, DEFINITION, first
from tests.support.clock import FakeClock, FakeRandomness
from tests.unit.table.committing import append, load, memory_context, rival, traps


class Patient(LocalStorage):
    """A storage whose writer begins its turn when so many others have made their offers."""

    def __init__(self, root: Path, offers: int, patience_s: float) -> None:
        """Wait for a number of offers, once."""
        super().__init__(root)
        self.patience_s = patience_s
        self.wanted = offers
        self.offers = root / "_segtable/offers"
        self.held = Event()

    @contextmanager
    def turn(
        self, prefix: str, *, wait_s: float, offer: Callable[[], bytes | None] | None = None
    ) -> Iterator[Turn]:
        """Wait for the offers within the turn, and for the turn itself as long as it takes."""
        del wait_s
        with super().turn(prefix, wait_s=self.patience_s, offer=offer) as turn:
            self.held.set()
            end = time.monotonic() + 120.0  # the test fails then, and does not hang
            while self._made() < self.wanted and time.monotonic() < end:
                os.sched_yield()
            self.wanted = 0
            yield turn

    def _made(self) -> int:
        if not self.offers.exists():
            return 0
        return sum(not each.name.startswith(".") for each in self.offers.iterdir())


def on_disk(
    root: Path, author: str, offers: int = 0, seed: int = 0, patience_s: float = 60.0
) -> TableContext:
    return TableContext(
        uri=str(root),
        storage=Patient(root, offers, patience_s),
        files=MemoryFiles(),
        clock=FakeClock(BASE + 10),
        randomness=FakeRandomness(seed),  # two authors with one token would share a probe
        author=author,
        most_skew_s=1e12,
    )


def test_a_holder_puts_what_others_wait_to_put(tmp_path: Path) -> None:
    """One file: each event has its own author; each author gets its own number."""
    holder = on_disk(tmp_path, "holder", offers=3)
    create_table(holder, DEFINITION)
    state = load(holder)
    with ThreadPoolExecutor(4) as pool:
        leading = pool.submit(commit, holder, state, append(0, "c0"))
        holder.storage.held.wait()  # type: ignore[attr-defined]
        waiting = [
            pool.submit(commit, on_disk(tmp_path, f"a{n}", seed=n), state, append(n, f"c{n}"))
            for n in range(1, 4)
        ]
        outcomes = [leading.result(), *(each.result() for each in waiting)]
    numbers = [each.n for each in outcomes if isinstance(each, Committed)]
    assert sorted(numbers) == [1, 2, 3, 4]
    assert len([*(tmp_path / TIMELINE).iterdir()]) == 2
    events = {event.commit: event for event in EventLog(holder.storage).events(1)}
    assert [events[f"c{n}"].n for n in range(4)] == numbers
    assert events["c2"].author == "a2"
    assert not any((tmp_path / "_segtable/offers").iterdir())


def test_a_lost_lease_is_not_offered(tmp_path: Path) -> None:
    """Its author stops, as without company."""
    holder = on_disk(tmp_path, "holder", patience_s=0.01)
    create_table(holder, DEFINITION)

    def lost() -> None:
        raise LockLost("gone")

    with (
        LocalStorage(tmp_path).turn(TIMELINE, wait_s=1.0),
        pytest.raises(LockLost),
    ):
        commit(holder, load(holder), append(0, guard=lost))
    assert load(holder).n == 0


# What an author makes of a claim
@dataclass
class Claimed:
    """The turn of a writer whose offer was claimed."""

    claimed_as: int | None
    claimed: bool = True

    def claim(self, number: int, most: int) -> Sequence[bytes]:
        """Return nothing."""
        del number, most
        return ()

    def end_claims(self) -> None:
        """Do nothing."""


def claimed_by_another(ports: TableContext, claimed_as: int | None) -> TableContext:
    """Return ports whose first turn ends with a claimed offer."""
    turns: list[Turn] = [Claimed(claimed_as)]
    inner = ports.storage

    class Hosted:
        def turn(
            self, prefix: str, *, wait_s: float, offer: Callable[[], bytes | None] | None = None
        ) -> AbstractContextManager[Turn]:
            if turns and offer is not None:
                assert offer() is not None
                return nullcontext(turns.pop())
            return inner.turn(prefix, wait_s=wait_s)

        def __getattr__(self, name: str) -> object:
            return getattr(inner, name)

    return replace(ports, storage=Hosted())  # type: ignore[arg-type]


@pytest.fixture
def ports() -> TableContext:
    return memory_context()


def test_a_claim_that_is_under_way_leaves_nothing_certain(ports: TableContext) -> None:
    """A change that is refused meanwhile may still land: its files stay."""
    state = load(ports)
    hosted = claimed_by_another(ports, 1)

    asked: list[int] = []

    def lost_later() -> None:
        asked.append(1)
        if len(asked) > 1:
            raise LockLost("gone")

    change = append(0, guard=lost_later)
    assert commit(hosted, state, change) == Unknown(commit_id="mine", n=1)


def test_a_claim_whose_number_is_taken_is_over(ports: TableContext) -> None:
    """The author goes on alone, and a refusal is certain again."""
    state = load(ports)
    commit(ports, state, append(5, "other"))
    done = commit(claimed_by_another(ports, 1), state, append(0))
    assert isinstance(done, Committed)
    assert done.n == 2


def test_a_claim_that_was_carried_out_is_found_by_its_commit_id(ports: TableContext) -> None:
    """It is not put again."""
    state = load(ports)
    commit(ports, state, append(0))
    puts = ports.storage.creates  # type: ignore[attr-defined]
    done = commit(claimed_by_another(ports, None), state, append(0))
    assert isinstance(done, Committed)
    assert done.n == 1
    assert ports.storage.creates == puts  # type: ignore[attr-defined]


def test_a_log_that_cannot_be_read_after_a_claim_leaves_nothing_certain(
    ports: TableContext,
) -> None:
    """The claim has ended and the change may have landed: its files stay until the log is read."""
    state = load(ports)
    commit(ports, state, append(0))
    puts = ports.storage.creates  # type: ignore[attr-defined]
    hosted = claimed_by_another(ports, None)
    ports.storage.unreadable = 1  # type: ignore[attr-defined]
    done = commit(hosted, state, append(0))
    assert isinstance(done, Committed)
    assert done.n == 1
    assert ports.storage.creates == puts  # type: ignore[attr-defined]


def test_a_change_that_was_left_out_goes_alone(ports: TableContext) -> None:
    """And is put by its author at the number of the claim, against the late holder."""
    for claimed_as in (None, 1):
        state = load(ports)
        done = commit(claimed_by_another(ports, claimed_as), state, append(0, f"{claimed_as}"))
        assert isinstance(done, Committed)


def test_a_late_holder_is_found_after_a_race(ports: TableContext) -> None:
    """The claim's event takes the number first: the author finds its own change there."""
    state = load(ports)
    traps(ports).append(rival(ports, 0, append(0).action))
    done = commit(claimed_by_another(ports, 1), state, append(3))
    assert isinstance(done, Committed)
    assert done.n == 2


# Offers
def stamped(partition: int, commit_id: str) -> Stamped:
    action = append(partition).action
    return Stamped(action=action, commit=commit_id, author="a", not_before=BASE + 50)


def test_an_offer_comes_back_whole(ports: TableContext) -> None:
    """With its actions, authors and times; not to another table, and not when torn."""
    state = load(ports)
    changes = [stamped(0, "a"), stamped(1, "b")]
    data = encode_offer(changes, state)
    first_one, second = decode_offer(data, state)
    assert first_one == changes[0]
    assert second == replace(changes[1], not_before=BASE + 51)
    other = replace(state, table=replace(state.table, table_id="other"))
    assert decode_offer(data, other) == ()
    assert decode_offer(data[:-3], state) == ()
    assert decode_offer(b"", state) == ()


def test_offers_join_like_changes_put_alone(ports: TableContext) -> None:
    """Equal commit ids once; a kind that does not join, and a refused one, stay outside."""
    state = load(ports)
    tag = Stamped(action=Tagged(name="t", n=0), commit="t", author="a", not_before=0)
    changes = [stamped(0, "a"), stamped(0, "a"), tag, stamped(0, "b")]
    events, after = join_offered(state, changes, lambda: BASE)
    assert [(event.n, event.commit) for event in events] == [(1, "a"), (2, "b")]
    assert events[0].time == BASE + 50
    assert sorted(s.id.partition for s in after.timeline.segments()) == [0, 1]
    assert first(0).path in after.timeline.paths()
