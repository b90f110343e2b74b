"""Put defects back, one by one, and count the plays of the matrix until each is found.

    python -m tests.simulation.pairs.replant               # all of them
    python -m tests.simulation.pairs.replant restored      # one

Each defect is a few lines of the code as they were, planted in a copy of the package. Plays come in
an order of luck that is the same in each run. ``tests/MUTANTS.md`` has the numbers.
"""

import shutil
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[3]
PACKAGE = "airflow_provider_segtable"
MINUTES = 20


@dataclass(frozen=True, slots=True, kw_only=True)
class Defect:
    """What a file said instead of what it says, and the kind of table that it is about."""

    kind: str
    path: str
    lines: Sequence[tuple[str, str]]


_NOTED = "        met[keys.find(batch)[keys.find(batch) >= 0]] = True\n"
DEFECTS: Mapping[str, Defect] = {
    "late": Defect(  # late log files in the columns of the plan's start
        kind="latest",
        path="services/compaction.py",
        lines=[
            (
                "rewritten(ports, replace(attempt, state=state), step, 1)",
                "rewritten(ports, attempt, step, 1)",
            )
        ],
    ),
    "merged": Defect(  # a tombstone counts as a key that is there
        kind="latest",
        path="table/changes/arrow_engine.py",
        lines=[
            (
                "    def keep(batch",
                "    met = np.zeros(keys.count, np.bool_)\n\n    def keep(batch",
            ),
            (
                "        return batch.filter(",
                _NOTED + "        return batch.filter(",
            ),
            ("    met = np.zeros(keys.count, np.bool_)\n    met[keys.find(rows)] = True\n", ""),
        ],
    ),
    "baseless": Defect(  # a major compaction leaves no base
        kind="latest",
        path="core/log/major_plan.py",
        lines=[
            ("replace(s, shard=replace(s.shard, base=s.shard.core))", "s"),
            ("core=size, base=size) for p in", "core=size, base=0) for p in"),
        ],
    ),
    "restored": Defect(  # what was restored counts as freshly compacted
        kind="rollup",
        path="core/log/families/restore_events.py",
        lines=[("size = len(base_of(some))", "size = len(some)")],
    ),
    "undefaulted": Defect(  # a merge inserts nulls in place of defaults
        kind="append",
        path="table/changes/matching.py",
        lines=[
            ("_widened(new, given_schema(snapshot.state.table))", "_widened(new, snapshot.schema)")
        ],
    ),
    "undone": Defect(  # a plan goes on that left rows out which a restore brings back
        kind="rollup",
        path="core/log/families/restore_events.py",
        lines=[
            (
                "return segment.path, frozenset(vectors), frozenset(erased)",
                "return segment.path, frozenset(vectors), frozenset()",
            )
        ],
    ),
}


def found(defect: Defect) -> str:
    """Return what the matrix says of a copy of the package with a defect.

    Raises:
        ValueError: the lines are not there any more.
    """
    with tempfile.TemporaryDirectory() as place:
        for folder in (PACKAGE, "tests"):
            shutil.copytree(ROOT / folder, Path(place) / folder)
        path = Path(place) / PACKAGE / defect.path
        text = path.read_text()
        for now, then in defect.lines:
            if now not in text:
                raise ValueError(f"{defect.path} does not say {now!r}: plant it otherwise")
            text = text.replace(now, then, 1)
        path.write_text(text)
        wanted = ["--kind", defect.kind, "--find", "--minutes", str(MINUTES)]
        command = [sys.executable, "-m", "tests.simulation.pairs.matrix", *wanted]
        return subprocess.run(
            command, cwd=place, capture_output=True, text=True, check=False
        ).stdout


def main(names: Sequence[str]) -> None:
    """Plant defects; print what each play said that found one, and how many there were."""
    for name in names or DEFECTS:
        sys.stdout.write(f"== {name}\n{found(DEFECTS[name])[-1500:]}\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main(sys.argv[1:])
