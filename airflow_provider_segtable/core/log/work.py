"""The measures of a completed plan: what its run read and wrote, and what readers gained by it.

1. They follow from the plan's events, so the log records nothing for them. A state keeps them with
   each plan that it keeps.
2. Bytes read are those of the plan. A run over a time may have found others under its lock.
3. *Overlap* is the number of files that hold one instant of event time, on average. Of a run over
   more than one chunk it is not measured: its inputs would have to be decoded for it.
4. *Reordered* are the bytes of inputs that had another order than the outputs.
"""

from collections.abc import Collection, Iterable, Sequence

from airflow_provider_segtable.core.dataclass import dataclass
from airflow_provider_segtable.core.facts import Facts
from airflow_provider_segtable.core.segment import Segment, SegmentId


@dataclass(frozen=True, slots=True, kw_only=True)
class Work:
    """The measures of one run; overlaps are 0 where they are not measured."""

    files_read: int
    bytes_read: int
    files_written: int
    bytes_written: int
    overlap_before: float = 0.0
    overlap_after: float = 0.0
    reordered: int = 0

    def facts(self) -> Facts:
        """Return the measures as plain JSON values."""
        known = self.overlap_before > 0
        return {
            "files_read": self.files_read,
            "bytes_read": self.bytes_read,
            "files_written": self.files_written,
            "bytes_written": self.bytes_written,
            "overlap_before": round(self.overlap_before, 3) if known else None,
            "overlap_after": round(self.overlap_after, 3) if known else None,
            "bytes_reordered": self.reordered if known else None,
        }

    def encode(self) -> list[float]:
        """Return the measures as numbers, in the order of the fields."""
        overlaps = [round(self.overlap_before, 6), round(self.overlap_after, 6)]
        written = [self.files_written, self.bytes_written]
        return [self.files_read, self.bytes_read, *written, *overlaps, self.reordered]

    @staticmethod
    def decode(numbers: Sequence[float]) -> "Work":
        """Parse the output of ``encode``; further numbers of a newer segtable are ignored."""
        read, size, written, made, before, after, reordered = numbers[:7]
        return Work(
            files_read=int(read),
            bytes_read=int(size),
            files_written=int(written),
            bytes_written=int(made),
            overlap_before=before,
            overlap_after=after,
            reordered=int(reordered),
        )


def work_of(
    read: Collection[SegmentId], inputs: Sequence[Segment], segments: Iterable[Segment], size: int
) -> Work:
    """Measure a completion.

    Args:
        read: the ids of the inputs.
        inputs: the same, if they are known.
        segments: all that the completion publishes; what it carries over was not written by it.
        size: bytes of the inputs.
    """
    made = [each for each in segments if each.rows and each.origin is None]
    orders = {each.clustering for each in made}
    return Work(
        files_read=len(read),
        bytes_read=size,
        files_written=len(made),
        bytes_written=sum(each.size for each in made),
        overlap_before=depth(inputs),
        overlap_after=depth(made) if inputs else 0.0,
        reordered=sum(each.size for each in inputs if each.rows and each.clustering not in orders),
    )


def depth(segments: Iterable[Segment]) -> float:
    """Return how many segments hold one instant, on average over the time that they span."""
    spans = [(each.time_min, each.time_max + 1) for each in segments if each.rows]
    if not spans:
        return 0.0
    whole = max(end for _, end in spans) - min(start for start, _ in spans)
    return sum(end - start for start, end in spans) / whole
