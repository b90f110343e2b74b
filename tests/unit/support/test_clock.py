"""The fake clock and chance."""

from tests.support.clock import START, FakeClock, FakeRandomness


def test_sleeping_moves_both_clocks_at_once() -> None:
    """A sleep is noted and takes no real time."""
    clock = FakeClock()
    clock.sleep(1.5)
    clock.sleep(3600)
    assert clock.now() == START + 3_601_500_000
    assert clock.monotonic() == 3601.5
    assert clock.slept == [1.5, 3600]


def test_a_jump_leaves_deadlines_alone() -> None:
    """The wall clock may go back; the deadline clock never does."""
    clock = FakeClock()
    clock.advance(10)
    clock.jump(START - 1)
    assert clock.now() == START - 1
    assert clock.monotonic() == 10


def test_chance_repeats_by_seed() -> None:
    """Equal seeds draw alike, others do not; tokens have 16 hexadecimal digits."""

    def draw(seed: int) -> list[object]:
        randomness = FakeRandomness(seed)
        return [randomness.token(), randomness.uniform(), randomness.token()]

    assert draw(1) == draw(1)
    assert draw(1) != draw(2)
    token = FakeRandomness(3).token()
    assert len(token) == 16
    assert int(token, 16) >= 0
