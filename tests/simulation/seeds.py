"""Seeds that are played one after the other: the command of every scenario.

A failure is told at once, with what its world says of it, and the next seed is played.
"""

import argparse
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TypeVar

Played = TypeVar("Played")
NOTED = 1000
"""Letters of each note to a failure that are shown."""


def command(description: str, *, seeds: int = 100) -> argparse.ArgumentParser:
    """Return the parser of a command that plays seeds."""
    parser = argparse.ArgumentParser(
        description=description, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--seeds", type=int, default=seeds, help=f"how many (default {seeds})")
    parser.add_argument("--first", type=int, default=0, help="the first (default 0)")
    return parser


def beginning_with(first: int, most: int) -> tuple[int, ...]:
    """Return a seed, which showed an error once, and the others of so many, each once."""
    return (first, *(seed for seed in range(most) if seed != first))


def wanted(given: argparse.Namespace) -> range:
    """Return the seeds that a command was asked for."""
    return range(given.first, given.first + given.seeds)


def tried(
    seeds: Iterable[int], play: Callable[[int], Played]
) -> Iterator[tuple[int, Played | Exception]]:
    """Yield each seed with what playing it returned, or raised."""
    for seed in seeds:
        try:
            yield seed, play(seed)
        except Exception as wrong:  # noqa: BLE001 - an actor may raise anything; the next seed is run
            yield seed, wrong


def failing(
    seeds: Sequence[int],
    play: Callable[[int], Played],
    keep: Callable[[Played], object] = lambda _: None,
) -> list[int]:
    """Play seeds, and return those that failed; ``keep`` gets what the others returned."""
    failed = []
    for seed, found in tried(seeds, play):
        if isinstance(found, Exception):
            failed.append(seed)
            say(f"seed {seed}: {type(found).__name__}: {found}")
            for note in getattr(found, "__notes__", ()):
                say(f"  {note[:NOTED]}")
        else:
            keep(found)
    say(f"{len(seeds) - len(failed)} seeds passed, {len(failed)} failed")
    return failed


def main(description: str, play: Callable[[int], object], argv: Sequence[str] | None) -> int:
    """Play the seeds of a command; return its exit code."""
    given = command(description).parse_args(argv)
    return 1 if failing(wanted(given), play) else 0


def say(line: str) -> None:
    """Write a line, now."""
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()
