"""What the log keeps of a log store, against a model that keeps every record of every version.

The model of a bucket is the list of its records. A history begins epochs, commits ranges, restores
versions and cleans; readers take positions on the way, some of them behind records that were never
committed.
"""

from dataclasses import dataclass, field
from itertools import takewhile

import pytest
from hypothesis import given
from hypothesis import strategies as st

from airflow_provider_segtable.core.errors import Fenced, OffsetGap
from airflow_provider_segtable.core.log_store import manifest
from airflow_provider_segtable.core.log_store.manifest import (
    BucketManifest,
    LogRange,
    Position,
    decode_manifests,
    encode_manifests,
)
from tests.examples import examples

Step = tuple[str, int]
STEPS = st.lists(
    st.tuples(
        st.sampled_from(["begin", "commit", "commit", "commit", "restore", "clean", "read"]),
        st.integers(0, 9),
    ),
    max_size=40,
)


@dataclass
class Model:
    """A bucket, its records, and all versions of both; event 0 created the table."""

    known: BucketManifest = field(default_factory=BucketManifest)
    records: tuple[str, ...] = ()
    ranges: list[LogRange | None] = field(default_factory=lambda: [None])
    versions: list[tuple[BucketManifest, tuple[str, ...]]] = field(default_factory=list)
    readers: list[tuple[Position, tuple[str, ...]]] = field(default_factory=list)
    events: dict[str, int] = field(default_factory=dict)
    retained_from: int = 0

    def step(self, what: str, size: int) -> None:
        """Let one event, or a reader, come."""
        self.versions = self.versions or [(self.known, self.records)]
        n, new = len(self.ranges), None
        match what:
            case "begin":
                self.known = self.known.begun(self.known.epoch + 1, f"host-{n}")
            case "commit":
                size = 1 + size % 3
                start = self.known.end
                new = LogRange(bucket=0, epoch=self.known.epoch, start=start, end=start + size)
                self.known.check(new)
                self.known = self.known.extended(new, n)
                self.records += self._written(size)
                self.events.update(dict.fromkeys(self.records[start:], n))
            case "restore":
                version = max(self.retained_from, n - 1 - size)
                old, self.records = self.versions[version]
                self.known = self.known.restored(old, version, n).pruned(self.retained_from)
            case "clean":
                self.retained_from = max(self.retained_from, n - 1 - size)
                self.known = self.known.pruned(self.retained_from)
            case _:
                at = Position(epoch=self.known.epoch, offset=self.known.end + size)
                self.readers.append((at, self.records + self._written(size)))
        self.ranges.append(new)
        self.versions.append((self.known, self.records))

    def _written(self, count: int) -> tuple[str, ...]:
        """Return the next records of the newest epoch; it writes an offset once."""
        end = len(self.records)
        return tuple(f"{self.known.epoch}:{at}" for at in range(end, end + count))

    def found(self, offset: int) -> list[tuple[int, LogRange]]:
        """Return the ranges that a reader of retained events finds, with their events."""
        known = [
            (n, each)
            for span in self.known.spans(offset, len(self.ranges) - 1)
            for n in range(max(span.first, self.retained_from), span.last + 1)
            if (each := self.ranges[n]) is not None
        ]
        return [(n, each) for n, each in known if each.end > offset]

    def check(self) -> None:
        """Compare the bucket with the model."""
        assert self.known.end == len(self.records)
        for offset in range(len(self.records) + 1):
            self._check_from(offset)
        for position, seen in self.readers:
            left_at = self.known.lineage.left_at(position)
            same = _common(seen, self.records)
            if left_at is None:  # what is not committed may only be of the newest epoch
                assert same == min(len(seen), len(self.records))
                assert same == len(seen) or position.epoch == self.known.epoch
            else:
                assert left_at <= same

    def _check_from(self, offset: int) -> None:
        found = self.found(offset)
        at = found[0][1].start if found else len(self.records)
        for _, each in found:
            assert each.start == at
            mine = tuple(f"{each.epoch}:{i}" for i in range(each.start, each.end))
            assert self.records[each.start : each.end] == mine
            at = each.end
        assert at == len(self.records)
        kept = offset < at and self.events[self.records[offset]] >= self.retained_from
        assert not kept or found[0][1].start <= offset


def _common(one: tuple[str, ...], other: tuple[str, ...]) -> int:
    """Return the length of the common beginning."""
    pairs = zip(one, other, strict=False)
    return sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], pairs))


@given(steps=STEPS, most=st.integers(2, 6))
@examples(120)
def test_any_history_of_a_bucket_is_found_in_the_log(steps: list[Step], most: int) -> None:
    """Ranges are found from any offset on, dense and with the right records; readers are reset."""
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(manifest, "MOST", most)
        model = Model()
        for what, size in [("begin", 0), *steps]:
            model.step(what, size)
            if what in ("clean", "restore"):
                model.check()
        model.check()
        restores = sum(each.undone_after is not None for each in model.known.waypoints)
        assert len(model.known.waypoints) <= most + restores + 1
        assert decode_manifests(encode_manifests({3: model.known})) == {3: model.known}


def test_a_range_of_another_epoch_or_offset_is_refused() -> None:
    """Each refusal names both epochs or offsets, and the way out."""
    known = BucketManifest().begun(4, "host:7")
    done = known.extended(LogRange(bucket=1, epoch=4, start=0, end=50), 9)
    done.check(LogRange(bucket=1, epoch=4, start=50, end=51))
    with pytest.raises(Fenced, match=r"bucket 1: 50-60 is of epoch 3.*epoch 4, begun by host:7"):
        done.check(LogRange(bucket=1, epoch=3, start=50, end=60))
    for start, end in ((40, 60), (51, 60), (50, 50)):
        with pytest.raises(OffsetGap, match="end at 50"):
            done.check(LogRange(bucket=1, epoch=4, start=start, end=end))
