"""One shape for what benchmarks find: ours, a peer's, their ratio, a goal, and whether it is met.

1. A benchmark makes a ``Result`` for each thing it measures and hands all of them to ``report``. It
   prints a table, or with ``--json`` one JSON object a line, which ``run_all.py`` reads.
2. A goal limits the ratio of ours to the peer's where there is a peer, else our number. It is an
   upper bound (``most``) or a lower one (``least``), never both.
3. A result without a goal is shown and not judged.
"""

import json
import sys
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import Self

HEADER = ("benchmark", "what", "ours", "peer", "ratio", "goal", "")


@dataclass(frozen=True, slots=True, kw_only=True)
class Result:
    """A number of ours, the peer's number in the same run, and the goal.

    Attributes:
        benchmark: the benchmark's file without its suffix.
        what: what was measured, a few words.
        ours: our number.
        unit: the unit of both numbers, such as ``s`` or ``MB/s``.
        peer: the peer's number; None without a peer.
        against: the peer's name.
        most: the goal as an upper bound.
        least: the goal as a lower bound.
    """

    benchmark: str
    what: str
    ours: float
    unit: str
    peer: float | None = None
    against: str = ""
    most: float | None = None
    least: float | None = None

    @property
    def ratio(self) -> float | None:
        """Return ours by the peer's; None without a peer."""
        return self.ours / self.peer if self.peer else None

    @property
    def met(self) -> bool | None:
        """Return whether the goal is met; None without a goal."""
        judged = self.ours if self.peer is None else self.ratio
        if judged is None or (self.most is None and self.least is None):
            return None
        return (self.most is None or judged <= self.most) and (
            self.least is None or judged >= self.least
        )

    def line(self) -> str:
        """Return the result as a line of JSON, with its ratio and verdict."""
        return json.dumps(asdict(self) | {"ratio": self.ratio, "met": self.met})

    @classmethod
    def parsed(cls, line: str) -> Self | None:
        """Return the result of a line; None if the line is something else."""
        if not line.startswith('{"benchmark": '):
            return None
        fields = json.loads(line)
        del fields["ratio"], fields["met"]
        return cls(**fields)

    def cells(self) -> tuple[str, ...]:
        """Return the columns of ``HEADER`` as text."""
        peer = "" if self.peer is None else f"{_short(self.peer)} {self.unit} ({self.against})"
        bound = self.most if self.most is not None else self.least
        goal = "" if bound is None else f"{'≤' if self.most is not None else '≥'} {_short(bound)}"
        if goal:
            goal += " x" if self.peer is not None else f" {self.unit}"
        return (
            self.benchmark,
            self.what,
            f"{_short(self.ours)} {self.unit}",
            peer,
            "" if self.ratio is None else f"{_short(self.ratio)} x",
            goal,
            {True: "✔", False: "✗", None: ""}[self.met],
        )


def report(results: Sequence[Result], *, as_json: bool = False) -> None:
    """Print results as a table, or as lines of JSON."""
    lines = (result.line() for result in results) if as_json else table(results)
    sys.stdout.write("".join(f"{line}\n" for line in lines))
    sys.stdout.flush()


def table(results: Sequence[Result]) -> Iterator[str]:
    """Yield the lines of a Markdown table whose columns are aligned."""
    rows = [HEADER, *(result.cells() for result in results)]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    padded = ["| " + " | ".join(map(str.ljust, row, widths)) + " |" for row in rows]
    yield padded[0]
    yield "|" + "|".join("-" * (width + 2) for width in widths) + "|"
    yield from padded[1:]


def _short(number: float) -> str:
    """Return a number with three digits that count."""
    if abs(number) >= 100:  # no fraction among three digits
        return f"{number:,.0f}"
    return f"{number:.3g}"
