"""What the writers of the keyed stress run write: a function of the writer's name and turn.

1. The table, its keys and records are those of the simulation (``tests/simulation/keyed``), so both
   share one model of what must be left. Few keys, of which low numbers are written most.
2. A commit id names its writer and turn: ``upserter1-7``. Batches of a stream are named by the
   stream's id instead, as Spark does, and its checkpoint in the crew's folder knows whose that is.
3. A stream of Spark computes its records by arithmetic (``streamed``): a batch has a key once,
   because the rows of a DataFrame have no order.
"""

import json
from collections.abc import Sequence
from pathlib import Path
from random import Random

import pyarrow.compute as pc

from tests.simulation.keyed.records import Record

KEYS = 149
MOST_RECORDS = 24
SEQUENCES = 4
"""Values of the ordering column: so few that records tie all the time."""
MOST_CHANGED = 5
STREAMED_ROWS = 40
"""Rows of a batch of a Spark stream; fewer than keys."""
STREAMED_STRIDE = 7
"""Distance between the keys of a batch of a Spark stream; no divisor of the number of keys."""


def records_of(name: str, turn: int) -> tuple[Record, ...]:
    """Return the records that a writer upserts in one turn."""
    random = Random(f"{name}-{turn}")

    def one() -> Record:
        value = random.getrandbits(48)
        return Record(
            key=int(KEYS * random.random() ** 2),
            seq=None if random.random() < 0.1 else random.randrange(SEQUENCES),
            text=value if random.random() < 0.7 else None,
            note=value if random.random() < 0.5 else None,
            deletes=random.random() < 0.2,
        )

    return tuple(one() for _ in range(random.randint(1, MOST_RECORDS)))


def changed_keys(name: str, turn: int) -> tuple[int, ...]:
    """Return the keys that a change by condition looks for."""
    random = Random(f"{name}-{turn}")
    return tuple(sorted({int(KEYS * random.random() ** 2) for _ in range(MOST_CHANGED)}))


def changed_text(name: str, turn: int) -> int | None:
    """Return the text that an update sets; None for a delete."""
    return -1 - Random(f"{name}-{turn}-text").getrandbits(48) if turn % 2 else None


def condition(keys: Sequence[int]) -> pc.Expression:
    """Return the condition of a change."""
    return pc.field("row").isin([*keys])


def streamed(stream: int, batch: int) -> tuple[Record, ...]:
    """Return the records of one batch of a Spark stream (``spark_stream`` has the same in SQL)."""
    first = batch * STREAMED_ROWS
    return tuple(_streamed(stream, value) for value in range(first, first + STREAMED_ROWS))


def _streamed(stream: int, value: int) -> Record:
    return Record(
        key=(value * STREAMED_STRIDE + 13 * stream) % KEYS,
        seq=None if value % 11 == 0 else (value // 3 + stream) % SEQUENCES,
        text=None if value % 3 == 0 else value,
        note=None if value % 2 == 0 else value,
        deletes=value % 5 == 0,
    )


def writer_and_turn(commit_id: str, streams: dict[str, str]) -> tuple[str, int]:
    """Return who made a commit, and in which turn; ``streams`` names writers by stream id."""
    whose, turn = commit_id.rsplit("-", 1)
    return streams.get(whose, whose), int(turn)


def streams_in(folder: Path) -> dict[str, str]:
    """Return the names of the streams by the ids in their checkpoints."""
    found = {}
    for checkpoint in folder.glob("*.checkpoint"):
        metadata = checkpoint / "metadata"
        if metadata.exists():
            found[json.loads(metadata.read_text())["id"]] = checkpoint.stem
    return found
