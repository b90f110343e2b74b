"""The same rows twice: as they were appended, and as compaction left them.

What was appended is still there (nothing cleans it yet) and the log still says what it was, so the
two are measured side by side at the end, on one machine in one state.
"""

import time
from dataclasses import dataclass, replace
from statistics import median

from rich.table import Table as Grid
from rich.text import Text

from airflow_provider_segtable.cli.display.drawing import grid
from airflow_provider_segtable.core.counted import describe_size
from airflow_provider_segtable.core.timeline import Timeline
from airflow_provider_segtable.data.row_checksum import Checksum, checksum_of
from airflow_provider_segtable.table.snapshot import Snapshot

SCANS = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class Measured:
    """What reading a snapshot finds and costs; seconds are medians."""

    segments: int
    size: int
    found: Checksum
    scan_s: float
    column_s: float


def as_appended(snapshot: Snapshot) -> Snapshot:
    """Return the table as if nothing had ever been compacted."""
    appended = [s for s in snapshot.state.timeline.segments() if s.shard.minor_version == 0]
    timeline = Timeline.empty().with_changes(add=appended)
    return replace(snapshot, state=replace(snapshot.state, timeline=timeline))


def measure(snapshot: Snapshot, column: str) -> Measured:
    """Read all columns, then one, several times each."""
    segments = snapshot.segments()
    found = checksum_of(snapshot.batches())
    return Measured(
        segments=len(segments),
        size=sum(segment.size for segment in segments),
        found=found,
        scan_s=median(_seconds(snapshot, None) for _ in range(SCANS)),
        column_s=median(_seconds(snapshot, [column]) for _ in range(SCANS)),
    )


def _seconds(snapshot: Snapshot, columns: list[str] | None) -> float:
    started = time.perf_counter()
    for _ in snapshot.batches(columns=columns):
        pass
    return time.perf_counter() - started


def draw(sent: Checksum, before: Measured, after: Measured, column: str) -> Grid:
    """Draw the comparison; a number that differs from what was sent is red."""
    table = grid("", "", "sent", "as appended", "now", "", right=("sent", "as appended", "now"))

    def times(old: float, new: float, word: str) -> str:
        return f"{old / new:.1f} x {word}" if new else ""

    def row(name: str, *cells: str) -> None:
        table.add_row(Text(name, style="cyan"), *cells)

    row(
        "segments",
        "",
        f"{before.segments:,}",
        f"{after.segments:,}",
        times(before.segments, after.segments, "fewer"),
    )
    row(
        "bytes",
        "",
        describe_size(before.size),
        describe_size(after.size),
        times(before.size, after.size, "less"),
    )
    for name, old, new in (
        ("read all columns", before.scan_s, after.scan_s),
        (f"read {column}", before.column_s, after.column_s),
    ):
        row(name, "", f"{old:.2f} s", f"{new:.2f} s", times(old, new, "faster"))
    rows = [f"{found.rows:,}" for found in (sent, before.found, after.found)]
    sums = [found.hex for found in (sent, before.found, after.found)]
    row("rows", *rows, _verdict(rows))
    row("checksum", *sums, _verdict(sums))
    return table


def _verdict(values: list[str]) -> str:
    return "[green]equal[/]" if len(set(values)) == 1 else "[bold red]DIFFERENT[/]"
