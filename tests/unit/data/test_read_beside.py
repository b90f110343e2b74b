"""Files of a local disk are read by threads before their turn, in order and in bounded memory."""

from collections.abc import Iterator
from threading import Event

import pytest

from airflow_provider_segtable.data import files_ahead
from airflow_provider_segtable.data.files_ahead import HELD, LEAST_FILE, read_beside

WAIT_S = 10.0


@pytest.fixture(autouse=True)
def two_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    """Read as on a machine with two processors."""
    monkeypatch.setattr(files_ahead, "PROCESSORS", 2)


def large(_: object) -> int:
    return LEAST_FILE


def test_rows_keep_their_order() -> None:
    """Whatever is read first, items and their rows come in order."""
    found = read_beside(range(7), lambda n: iter([(n, 1), (n, 2)]), large, lambda _: HELD)
    assert [(n, [*rows]) for n, rows in found] == [(n, [(n, 1), (n, 2)]) for n in range(7)]


def test_the_next_file_is_read_while_one_is_used() -> None:
    """The second item has been read before the first is used up."""
    reached = Event()

    def read(n: int) -> Iterator[int]:
        if n == 1:
            reached.set()
        yield n

    for n, rows in read_beside(range(2), read, large, lambda _: 1):
        assert n or reached.wait(WAIT_S)
        assert [*rows] == [n]


def test_threads_hold_few_rows_ahead() -> None:
    """A thread reads no further than its bound and one batch, until rows are used."""
    made: list[int] = []

    def read(n: int) -> Iterator[int]:
        for at in range(50):
            made.append(n)
            yield at

    used = 0
    for _, rows in read_beside(range(2), read, large, lambda _: HELD // 2):
        for _ in rows:
            used += 1
            assert len(made) <= used + 2 * 4
    assert used == 100


def test_small_files_are_read_in_their_turn() -> None:
    """Below the least size nothing is read before it is asked for."""
    begun: list[int] = []

    def read(n: int) -> Iterator[int]:
        begun.append(n)
        yield n

    for n, rows in read_beside(range(3), read, lambda _: LEAST_FILE - 1, lambda _: 1):
        assert [*rows] == [n]
        assert begun == [*range(n + 1)]


def test_an_error_is_raised_where_its_rows_are_used() -> None:
    """Rows before it come first; threads end, whether or not all is used."""

    def read(n: int) -> Iterator[int]:
        yield n
        if n == 1:
            raise ValueError(str(n))

    seen: list[int] = []

    def use() -> None:
        for _, rows in read_beside(range(4), read, large, lambda _: 1):
            seen.extend(rows)

    with pytest.raises(ValueError, match="1"):
        use()
    assert seen == [0, 1]


def test_a_reader_that_stops_early_ends_the_threads() -> None:
    """Closing the reader waits for no more than the batch at hand."""

    def read(_: int) -> Iterator[int]:
        while True:
            yield 1

    found = read_beside(range(3), read, large, lambda _: HELD)
    _, rows = next(found)
    assert next(rows) == 1
    found.close()
