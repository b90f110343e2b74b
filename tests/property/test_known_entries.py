"""Entries in memory are those of all layers, whatever their order of keys, sizes and hashes.

The oracle is a dictionary by the entries' own key.
"""

from itertools import pairwise
from random import Random

import numpy as np
import pyarrow as pa
import pytest

from airflow_provider_segtable.data.indexes import known_entries
from airflow_provider_segtable.data.indexes.known_entries import KnownEntries
from airflow_provider_segtable.data.keyed.keyed_rows import key_hashes
from airflow_provider_segtable.data.keyed.log_files import Records

SCHEMA = pa.schema(
    [("key_1", pa.int64()), ("key_2", pa.string()), ("token", pa.string()), ("value", pa.int64())]
)
KEY, ENTRY_KEY = ("key_1", "key_2"), ("key_1", "key_2", "token")
SEEDS, LAYERS = 5, 14
Row = dict[str, object]
Truth = dict[tuple[object, ...], Row]


def drawn(draw: Random, turn: int) -> Records:
    """Return entries and tombstones of few keys and tokens; some layers are long, some empty."""
    found: list[Row] = [
        {
            "key_1": draw.randrange(6),
            "key_2": draw.choice(["", "a", "ü"]),
            "token": f"{draw.randrange(3)}",
            "value": turn * 1000 + at,
        }
        for at in range(draw.choice([0, 1, 2, 3, 20]))
    ]
    gone = np.asarray([draw.random() < 0.4 for _ in found], bool)
    return Records(rows=pa.Table.from_pylist(found, SCHEMA), deleted=gone)


def apply(truth: Truth, layer: Records) -> None:
    """Apply a layer to the oracle."""
    for row, deleted in zip(layer.rows.to_pylist(), layer.deleted.tolist(), strict=True):
        name = tuple(row[column] for column in ENTRY_KEY)
        if deleted:
            truth.pop(name, None)
        else:
            truth[name] = row


def listed(rows: pa.Table) -> list[tuple[object, ...]]:
    """Return rows, sorted."""
    return sorted(tuple(row.values()) for row in rows.to_pylist())


def of_keys(truth: Truth, wanted: pa.Table) -> list[tuple[object, ...]]:
    """Return the entries of some keys, by the oracle."""
    keys = {tuple(row.values()) for row in wanted.select([*KEY]).to_pylist()}
    return sorted(tuple(row.values()) for name, row in truth.items() if name[:2] in keys)


@pytest.fixture(params=[None, 1, 3])
def _few_hashes(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let keys share a hash."""
    if request.param is not None:
        monkeypatch.setattr(
            known_entries, "key_hashes", lambda *given: np.mod(key_hashes(*given), request.param)
        )


@pytest.mark.usefixtures("_few_hashes")
def test_look_ups_see_the_last_of_each_entry() -> None:
    """After each layer, of any keys; earlier values are not changed by later layers."""
    for seed in range(SEEDS):
        draw, truth = Random(seed), Truth()
        known = KnownEntries(n=0, key=KEY, entry_key=ENTRY_KEY, schema=SCHEMA)
        for turn in range(LAYERS):
            before, layer = known, drawn(draw, turn)
            wanted = drawn(draw, 0).rows
            old = listed(before.of_keys(wanted))
            known = known.after(turn + 1, [layer])
            assert listed(before.of_keys(wanted)) == old == of_keys(truth, wanted), seed
            apply(truth, layer)
            assert listed(known.of_keys(wanted)) == of_keys(truth, wanted), f"{seed}: {turn}"
            sizes = [len(run.hashes) for run in known.runs]
            assert all(one > 2 * other for one, other in pairwise(sizes))
        assert known.n == LAYERS
        assert known.nbytes >= 0


def test_layers_may_be_repeated() -> None:
    """From any of them on: a join of feeds has entries of earlier events, too."""
    for seed in range(SEEDS):
        draw, truth = Random(seed), Truth()
        layers = [drawn(draw, turn) for turn in range(LAYERS)]
        for layer in layers:
            apply(truth, layer)
        empty = KnownEntries(n=0, key=KEY, entry_key=ENTRY_KEY, schema=SCHEMA)
        whole = empty.after(LAYERS, layers)
        again = whole.after(LAYERS, layers[draw.randrange(LAYERS) :])
        wanted = pa.concat_tables(layer.rows for layer in layers)
        assert listed(again.of_keys(wanted)) == of_keys(truth, wanted), seed
