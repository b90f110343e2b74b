"""All plays: each action, held before each of its effects, beside crowds of all the others.

    python -m tests.simulation.pairs.matrix --minutes 20       # as far as that takes it
    python -m tests.simulation.pairs.matrix --every 16 --part 3    # the fourth of 16 parts
    python -m tests.simulation.pairs.matrix --kind latest --first major --alone

A crowd lands one after the other while the action is held, so one play looks at many pairs; what
ends the table comes last. ``--alone`` plays each pair by itself, which finds who it was.
"""

import argparse
import sys
import time
import traceback
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from hashlib import sha256

from tests.simulation.pairs.actions import ACTIONS, ACTORS
from tests.simulation.pairs.pair import AGES, KINDS, base, fitting, play, stages_of

LONG = 4
"""The share of the matrix, one in so many, that a long run plays."""
LAST = ("drop", "drop and create")


@dataclass(frozen=True, slots=True, kw_only=True)
class Play:
    """One play, by names."""

    kind: str
    age: str
    first: str
    point: str
    others: tuple[str, ...]

    def __str__(self) -> str:
        """Return it on one line."""
        held = f"{self.kind}, {self.age}: {self.first} held {self.point}"
        return f"{held}, beside {', '.join(self.others)}"

    def run(self) -> None:
        """Play it."""
        at = stages_of(self.kind, self.age, self.first)[self.point]
        play(base(self.kind, self.age), self.first, at, self.others, luck(str(self)))


def luck(text: str) -> int:
    """Return a number that is the same in each run."""
    return int.from_bytes(sha256(text.encode()).digest()[:4])


def crowds(kind: str, age: str, first: str, point: str, size: int = ACTORS - 1) -> Iterator[Play]:
    """Yield the plays of an action that is held at a point: all others in crowds."""
    others = fitting(kind, age)
    others.sort(key=lambda name: luck(f"{kind} {age} {first} {point} {name}"))
    for start in range(0, len(others), size):
        some = sorted(others[start : start + size], key=lambda name: name in LAST)
        yield Play(kind=kind, age=age, first=first, point=point, others=tuple(some))


def matrix(kind: str, *, every: int = 1, part: int = 0, size: int = ACTORS - 1) -> Iterator[Play]:
    """Yield all plays of a kind of table, or one in so many: one of as many parts."""
    for age in AGES:
        for first in ACTIONS:
            for point in stages_of(kind, age, first):
                plays = crowds(kind, age, first, point, size)
                yield from (each for each in plays if luck(str(each)) % every == part)


def held_once() -> list[tuple[str, str, str]]:
    """Return each action on one kind of table, some on two, by luck: kind, age and name.

    It plays nothing: whoever lists the tests need not wait for tables.
    """
    found = []
    for first in ACTIONS:
        ages = {kind: AGES[luck(f"{kind} {first}") % len(AGES)] for kind in KINDS}
        fit = [kind for kind, age in ages.items() if first in fitting(kind, age)]
        fit.sort(key=lambda kind: luck(f"{first}, {kind}"))
        found += [(kind, ages[kind], first) for kind in fit[: 1 + (luck(first) % 4 == 0)]]
    return found


def one_play(kind: str, age: str, first: str) -> Play | None:
    """Return one play of an action, chosen by luck; None if it has no effect to be held before."""
    points = [*stages_of(kind, age, first)]
    if not points:
        return None
    point = points[luck(f"{first} {kind}") % len(points)]
    plays = [*crowds(kind, age, first, point)]
    return plays[luck(f"{kind} {point}") % len(plays)]


def main(argv: Sequence[str] | None = None) -> int:
    """Play as much of the matrix as there is time for; print what failed."""
    parser = argparse.ArgumentParser(description="Play pairs of actions.")
    parser.add_argument("--kind", choices=[*KINDS], help="of this kind of table alone")
    parser.add_argument("--first", choices=[*ACTIONS], help="with this action held")
    parser.add_argument("--alone", action="store_true", help="each pair by itself")
    parser.add_argument("--every", type=int, default=1, help="one play in so many (default 1)")
    parser.add_argument("--part", type=int, default=0, help="which of these (default 0)")
    parser.add_argument("--minutes", type=float, default=60, help="for so long at most (60)")
    parser.add_argument("--find", action="store_true", help="in an order of luck, to the first")
    given = parser.parse_args(argv)
    until, played, failed = time.monotonic() + given.minutes * 60, 0, 0
    size = 1 if given.alone else ACTORS - 1
    for kind in [given.kind] if given.kind else KINDS:
        plays = [*matrix(kind, every=given.every, part=given.part, size=size)]
        for each in sorted(plays, key=lambda one: luck(f"{one}!")) if given.find else plays:
            if given.find and failed:
                break
            if (given.first and each.first != given.first) or time.monotonic() > until:
                continue
            played += 1
            try:
                each.run()
            except Exception as wrong:  # noqa: BLE001 - whatever it is, the next one is played
                failed += 1
                said = wrong if isinstance(wrong, AssertionError) else traceback.format_exc()
                sys.stdout.write(f"{each}\n{type(wrong).__name__}: {said}\n\n")
                sys.stdout.flush()
    sys.stdout.write(f"{played} plays, {failed} failed\n")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
