"""Offers of writers that wait on one host: claimed once, or taken back, never both."""

import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path

import pytest

from airflow_provider_segtable.ports.storage import Turn
from airflow_provider_segtable.storage import LocalStorage
from airflow_provider_segtable.storage.offers import UNKNOWN, LocalTurn

FOLDER = "_segtable/timeline"
SHORT_S = 0.05


@pytest.fixture
def root(tmp_path: Path) -> Path:
    (tmp_path / FOLDER).mkdir(parents=True)
    return tmp_path


def offers(root: Path) -> list[str]:
    return sorted(each.name for each in (root / "_segtable/offers").iterdir())


def while_waiting(root: Path, act: Callable[[Turn], object], data: bytes = b"mine") -> Turn:
    """Let a writer wait for its turn in vain; the holder acts meanwhile. Return its turn."""
    found: list[Turn] = []

    def offered() -> bytes:
        return data

    def wait() -> None:
        with LocalStorage(root).turn(FOLDER, wait_s=10 * SHORT_S, offer=offered) as turn:
            found.append(turn)

    with ThreadPoolExecutor(1) as pool, LocalStorage(root).turn(FOLDER, wait_s=SHORT_S) as held:
        waiting = pool.submit(wait)
        while not (root / "_segtable/offers").exists() or not offers(root):
            os.sched_yield()
        while offers(root)[0].startswith("."):
            os.sched_yield()
        act(held)
        if act is nothing:
            waiting.result()
    return found[0]


def nothing(_: Turn) -> None:
    """Claim nothing."""


def test_an_offer_that_nobody_claims_is_taken_back(root: Path) -> None:
    """Its author knows that it never will be."""
    turn = while_waiting(root, nothing)
    assert (turn.claimed, turn.claimed_as) == (False, None)
    assert offers(root) == []


def test_a_claim_that_has_ended_leaves_nothing(root: Path) -> None:
    """Its author has to look for its change in the log."""
    claimed: list[bytes] = []

    def carry(held: Turn) -> None:
        claimed.extend(held.claim(7, 9))
        held.end_claims()

    turn = while_waiting(root, carry)
    assert claimed == [b"mine"]
    assert (turn.claimed, turn.claimed_as) == (True, None)
    assert offers(root) == []


def test_a_claim_that_goes_on_is_known_by_its_number(root: Path) -> None:
    """As if its author had put that number itself; a holder that knows a higher one ends it."""
    turn = while_waiting(root, lambda held: held.claim(7, 9))
    assert (turn.claimed, turn.claimed_as) == (True, 7)
    with LocalStorage(root).turn(FOLDER, wait_s=SHORT_S) as held:
        assert held.claim(7, 9) == []
        assert len(offers(root)) == 1
        assert held.claim(8, 9) == []
        assert offers(root) == []


def test_a_writer_that_does_not_wait_offers_nothing(root: Path) -> None:
    """So a single writer pays no file."""
    with LocalStorage(root).turn(FOLDER, wait_s=SHORT_S, offer=lambda: b"mine") as turn:
        assert not turn.claimed
        assert turn.claim(1, 9) == []
    assert not (root / "_segtable/offers").exists()


def test_old_offers_and_other_names_are_not_claimed(root: Path) -> None:
    """The author of an old one is dead; a file under a hidden name is not complete."""
    folder = root / "_segtable/offers"
    folder.mkdir()
    for name in ("00000000000000000001-a", ".00000000000000000002-b.tmp", "stray"):
        (folder / name).write_bytes(b"x")
    with LocalStorage(root).turn(FOLDER, wait_s=SHORT_S) as held:
        assert held.claim(3, 9) == []
    assert offers(root) == [".00000000000000000002-b.tmp"]


def test_a_withdrawal_that_fails_makes_nothing_certain(root: Path) -> None:
    """The offer may still be claimed: no number settles it."""
    turn = LocalTurn(LocalStorage(root)._folders, FOLDER, lambda: b"mine")
    with turn.waiting():
        (name,) = offers(root)
        (root / "_segtable/offers" / name).unlink()
        (root / "_segtable/offers").rmdir()
    assert (turn.claimed, turn.claimed_as) == (True, UNKNOWN)


def test_each_offer_is_claimed_once(root: Path) -> None:
    """By any number of holders; the rest is taken back by the authors."""
    storage = LocalStorage(root)
    storage.replace("_segtable/offers/x", b"")
    storage.delete("_segtable/offers/x")
    turns = [LocalTurn(storage._folders, FOLDER, lambda n=n: str(n).encode()) for n in range(40)]
    holders = [LocalTurn(storage._folders, FOLDER, None) for _ in range(4)]
    with ExitStack() as authors, ThreadPoolExecutor(5) as pool:
        for turn in turns:
            authors.enter_context(turn.waiting())
        claims = [pool.submit(holder.claim, 5, 8) for holder in holders]
        pool.submit(authors.close).result()
        claimed = [int(data) for claim in claims for data in claim.result()]
    assert len(claimed) == len({*claimed})
    assert {n for n, turn in enumerate(turns) if turn.claimed} == {*claimed}
