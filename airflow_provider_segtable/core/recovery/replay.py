"""Recovery: rebuild a table's state from the descriptors of its files alone.

1. If two files have one id, both are listed and neither is used: the log's choice is unknown.
   Files with provisional ids get the next ids of their chunk: their rows say how they are merged.
2. In each chunk, an atomic update group that is not full hides nothing and is left out. If a group
   has several full attempts, one is chosen: they were made from the same roots. They must have
   equally many events, apart from deleted ones.
3. A version that major compaction began is *idle* if a complete higher version overlaps it without
   naming it in ``replaces``: then readers never saw it.
4. Versions are replayed from the lowest up. A version *stands* if its core sets are complete and
   have as many events as the segments it replaces, apart from deleted ones. It also stands if any
   of those segments is missing, since cleaning removes only segments that were replaced for good.
   Otherwise it falls back to the segments it was to replace.
5. Segments that a standing version overlaps but does not name were appended meanwhile. They are
   carried over, as the log would have done. So ``shown`` has no row twice, by construction.
6. Of a primary-key table, log files that do not fit the layout of a version are in it, or were
   never committed; a version that may lack some is left out (``core.recovery.claims``).
7. A question that descriptors cannot answer is a ``Doubt``, never a guess; a person has to decide
   a *blocking* one.

Source of the idea: Druid rebuilds its timeline from published segments' shard specs. Here, core
sets and ``replaces`` distinguish attempts from versions without the log.
"""

from collections.abc import Iterable, Sequence
from dataclasses import field
from itertools import groupby

from airflow_provider_segtable.core.dataclass import dataclass
from airflow_provider_segtable.core.log.event import Conflict
from airflow_provider_segtable.core.log.replacement import home
from airflow_provider_segtable.core.recovery.claims import (
    Deletes,
    Doubt,
    MergedRoots,
    Reason,
    Recovered,
    agreed,
    also_in,
    attempts,
    bared,
    begins,
    by_name,
    claims,
    contradictions,
    covered,
    doubt_about,
    fits,
    in_balance,
    inside,
    lacking,
    layout_of,
    names_of,
    proven,
    remains,
    renumbered,
    unfit_logs,
)
from airflow_provider_segtable.core.segment import ChunkKey, Segment, SegmentId
from airflow_provider_segtable.core.time import Instant, Interval, Layout, united
from airflow_provider_segtable.core.timeline import Timeline


def recover(
    segments: Iterable[Segment],
    layout: Layout,
    *,
    also: Iterable[str] = (),
    gone: Iterable[Segment] = (),
    deletes: Deletes | None = None,
    merged: MergedRoots | None = None,
) -> Recovered:
    """Return the recovered table.

    Args:
        segments: the descriptors of all its files, and the tombstones that a log names.
        layout: the table's layout, without overrides.
        also: paths of files to use although another file has their id: they get a new one.
        gone: segments that a log names but whose files are lost.
        deletes: the number of deleted rows by root.
        merged: the log files whose records are in a file.
    """
    deletes = deletes or Deletes({})
    work = _Work(layout=layout, gone=tuple(gone), deletes=deletes, merged=merged or {})
    work.take(segments, frozenset(also))
    idle = work.idle()
    for version in work.versions():
        work.replay(version, idle)
    return work.result()


@dataclass(slots=True)
class _Work:
    """The replay: ``alive`` holds the visible segments after the versions so far, by id."""

    layout: Layout
    gone: tuple[Segment, ...] = ()
    deletes: Deletes = field(default_factory=lambda: Deletes({}))
    merged: MergedRoots = field(default_factory=dict)
    timeline: Timeline = field(default_factory=Timeline.empty)
    alive: dict[SegmentId, Segment] = field(default_factory=dict)
    carried: dict[SegmentId, Segment] = field(default_factory=dict)
    replaced: dict[SegmentId, Segment] = field(default_factory=dict)
    dropped: list[Segment] = field(default_factory=list)
    doubts: list[Doubt] = field(default_factory=list)
    following: dict[ChunkKey, int] = field(default_factory=dict)
    renamed: list[Segment] = field(default_factory=list)
    torn: dict[ChunkKey, list[Segment]] = field(default_factory=dict)

    def take(self, segments: Iterable[Segment], also: frozenset[str]) -> None:
        """Add segments, leaving out equal ids and torn groups; rules 1 and 2."""
        named, self.renamed = by_name(segments)
        by_id = sorted(named, key=lambda s: (s.id, s.path in also, s.path))
        single: list[Segment] = []
        for _, group in groupby(by_id, key=lambda s: s.id):
            same = list(group)
            known, end = same[0].id.chunk, same[0].shard.root_end
            self.following[known] = max(self.following.get(known, 0), end)
            chosen = [s for s in same if s.path not in also] or same[:1]
            self.renamed += [s for s in same if s not in chosen]
            if len(chosen) == 1:
                single += chosen
                continue
            self.dropped += chosen
            note = f"{len(chosen)} files have the id {chosen[0].id}: leave out all but one"
            self._doubt(Reason.SAME_ID, chosen, note)
        for chunk, members in groupby(sorted(single, key=lambda s: s.id), key=lambda s: s.id.chunk):
            whole, torn = self._groups(list(members))
            self.timeline = self.timeline.with_changes(
                add=agreed(chunk, whole, frozenset(s.id for s in self.gone))
            )
            self.dropped += torn
            self.torn[chunk] = torn

    def _groups(self, members: Sequence[Segment]) -> tuple[list[Segment], list[Segment]]:
        """Return the segments of one full attempt per group, and all other segments."""
        whole: list[Segment] = []
        left: list[Segment] = []
        for tries in attempts(members).values():
            full = [tried for tried in tries if len(tried) == tried[0].shard.group_size]
            chosen = full[-1] if full else []
            whole += chosen
            left += [segment for tried in tries if tried is not chosen for segment in tried]
            counts = [sum(s.events for s in tried) for tried in full]
            if len({*counts}) > 1 and not self.deletes.alike(max(counts), counts, chosen):
                note = f"{len(full)} attempts at roots {chosen[0].shard.group} have unequal rows"
                self._doubt(Reason.MAYBE_DOUBLED, [s for tried in full for s in tried], note)
        return whole, left

    def versions(self) -> list[Instant]:
        """Return all versions, lowest first."""
        return sorted({chunk.version for chunk in self.timeline.chunk_keys()})

    def chunks(self, version: Instant) -> list[ChunkKey]:
        """Return the chunks of a version."""
        return [chunk for chunk in self.timeline.chunk_keys() if chunk.version == version]

    def cores(self, version: Instant) -> list[ChunkKey]:
        """Return the chunks of a version with a core set; empty if appends began the version."""
        return [chunk for chunk in self.chunks(version) if self.timeline.core(chunk)]

    def idle(self) -> frozenset[Instant]:
        """Return the versions of failed attempts; rule 3."""
        idle: set[Instant] = set()
        standing: list[Instant] = []
        for version in reversed(self.versions()):
            cores = self.cores(version)
            if not cores:
                continue
            higher = [other for other in standing if self._meets(other, cores)]
            named = any(
                core in names_of(self._members(other)) for other in higher for core in cores
            )
            if higher and not named:
                if any(self._grown(core) for core in cores):
                    segments = [s for core in cores for s in self._of(core)]
                    note = f"version {version} was used, yet {higher[0]} does not replace it"
                    self._doubt(Reason.VERSION, segments, note)
                idle.add(version)
            elif all(self.timeline.complete(core) for core in cores):
                standing.append(version)
        return frozenset(idle)

    def _meets(self, version: Instant, cores: Sequence[ChunkKey]) -> bool:
        return any(c.interval.overlaps(piece) for c in cores for piece in self._region(version))

    def _grown(self, chunk: ChunkKey) -> bool:
        """Return whether a chunk has segments written after its core set."""
        core = self.timeline.core(chunk)
        return any(s.id.partition >= core for s in self._of(chunk))

    def _of(self, chunk: ChunkKey) -> list[Segment]:
        return [s for group in self.timeline.groups(chunk) for s in group.segments]

    def _members(self, version: Instant) -> list[Segment]:
        return [s for chunk in self.chunks(version) for s in self._of(chunk)]

    def _region(self, version: Instant) -> list[Interval]:
        chunks = (*self.chunks(version), *names_of(self._members(version)))
        return united(chunk.interval for chunk in chunks)

    def replay(self, version: Instant, idle: frozenset[Instant]) -> None:
        """Replay one version over the versions below; rule 4."""
        cores = self.cores(version)
        groups = [g for c in self.chunks(version) for g in self.timeline.visible_groups(c)]
        news = [segment for group in groups for segment in group.segments]
        if not cores:
            self._show(news)
            return
        gone = (s for s in self.gone if s.id.version == version)
        names = names_of((*self._members(version), *gone))
        paths = {segment.path for segment in news if segment.path}
        claimed = [s for s in self.alive.values() if claims(names, s) or s.path in paths]
        if version in idle:
            self._leave_out(version)
            return
        if self._stands(version, cores, claimed):
            self._stand(version, news, claimed)
        else:
            self._fall_back(version, news)

    def _stands(
        self, version: Instant, cores: Sequence[ChunkKey], claimed: Sequence[Segment]
    ) -> bool:
        complete = all(self.timeline.complete(core) for core in cores)
        own = [s for c in cores for s in self._of(c) if s.shard.root_end <= self.timeline.core(c)]
        names = names_of((*own, *(s for s in self.gone if s.id.chunk in cores and begins(s))))
        logs = [s for s in self.renamed if s.id.provisional and s.id.version < version]
        below = [s for s in (*claimed, *logs) if claims(names, s)]
        if not names or not covered(names, below):
            return True  # nothing else stands for these rows; ``result`` reports the loss
        if not complete:
            return False
        after = self._after(version)
        logs += self.alive.values()
        if proven(own, logs, self.layout, after):
            return True
        inside = (*self._members(version), *below)
        if not any(map(self._grown, cores)) and self._lacking(logs, after, inside):
            return False
        return in_balance(self.timeline, own, below, self.deletes)

    def _stand(self, version: Instant, news: Sequence[Segment], claimed: Sequence[Segment]) -> None:
        names = names_of(self._members(version))
        region = self._region(version)
        self.layout = self._after(version)
        for segment in {*claimed, *unfit_logs(self.alive.values(), self.layout)}:
            self.replaced[segment.id] = self.alive.pop(segment.id)
            self.carried.pop(segment.id, None)
        missing = [c for c in names if not covered({c: names[c]}, claimed)]
        torn = not all(self.timeline.complete(core) for core in self.cores(version))
        self._show(news)
        for segment in [*self.alive.values()]:
            met = any(segment.id.interval.overlaps(piece) for piece in region)
            if segment.id.version >= version or not met or segment.tombstone:
                continue
            where = also_in(segment, missing, version, torn=torn)
            if where:
                note = f"rows of {segment.id} may also be in version {where}, which lost files"
                self._doubt(Reason.MAYBE_DOUBLED, [segment], note)
            self._carry(segment, version)

    def _fall_back(self, version: Instant, news: Sequence[Segment]) -> None:
        """Leave a version out, and carry its appended segments to the version below."""
        self._leave_out(version)
        for segment in news:
            if segment.tombstone or segment.id.partition < self.timeline.core(segment.id.chunk):
                continue
            if segment.shard.minor_version:
                note = f"version {version} is incomplete, but was compacted: restore its files"
                self._doubt(Reason.VERSION, [segment], note)
                continue
            if all(segment.path != other.path for other in self.alive.values()):
                self._carry(segment, None)

    def _carry(self, segment: Segment, version: Instant | None) -> None:
        """Give a segment an id in its chunk of the present layout; rule 5."""
        place = home(segment, self.layout)
        if isinstance(place, Conflict):
            self._doubt(Reason.LAYOUT, [segment], f"{segment.id}, later: {place.reason}")
            return
        interval, bucket = place
        if version is None:
            here = [s.id.version for s in self.alive.values() if s.id.interval.overlaps(interval)]
            version = max(here, default=segment.id.version)
        chunk = ChunkKey(interval, version, bucket)
        partition = self.following.get(chunk, 0)
        self.following[chunk] = partition + 1
        if self.alive.get(segment.id) == segment:  # not so if another file has its id
            del self.alive[segment.id]
            self.carried.pop(segment.id, None)
        if self.timeline.get(segment.id) == segment:
            self.replaced[segment.id] = segment
        moved = segment.carried(chunk.segment(partition), self.timeline.core(chunk))
        self.alive[moved.id] = self.carried[moved.id] = moved

    def _leave_out(self, version: Instant) -> None:
        """Drop the files of a version, and the parts of log files that were divided for it."""
        self.dropped += self._members(version)
        divided = [s for s in self.renamed if s.id.provisional and s.id.version == version]
        self.dropped += divided
        self.renamed = [s for s in self.renamed if s not in divided]

    def _show(self, segments: Iterable[Segment]) -> None:
        self.alive |= {segment.id: segment for segment in segments}

    def _after(self, version: Instant) -> Layout:
        """Return the layout with a version."""
        members = {chunk: self._of(chunk) for chunk in self.chunks(version)}
        return layout_of(members, self._region(version), self.layout)

    def _lacking(
        self, logs: Iterable[Segment], layout: Layout, inside: Iterable[Segment]
    ) -> tuple[Segment, ...]:
        news = [s for s in (*inside, *self.renamed) if s.replaces]
        roots = {root for s in inside for root in self.merged.get(s.path, ())}
        return lacking(logs, layout, names_of(news), roots)

    def _carry_logs(self) -> None:
        """Give ids to log files, and leave out log files of standing versions (rule 6)."""
        logs = [segment for segment in self.renamed if segment.id.provisional]
        self.layout = renumbered(self.layout, logs, self.alive.values())
        shown, out = [*self.alive.values()], {segment.id for segment in self.dropped}
        inside = [s for s in self.timeline.segments() if s.id not in out]
        odd = self._lacking(logs, self.layout, inside)
        for segment in self.renamed:
            over = [s.id.version for s in shown if s.id.interval.overlaps(segment.id.interval)]
            old = segment.created < max(over, default=0)
            if fits(segment, self.layout) or (segment in odd and not old):
                self._carry(segment, None)
            else:
                self.dropped.append(segment)

    def result(self) -> Recovered:
        """Return the recovered table, after checking for lost rows."""
        self._carry_logs()
        for chunk in bared(self.replaced.values(), self.alive.values()):
            self.dropped += self._of(chunk)
        for chunk in sorted({s.id.chunk for s in self.alive.values()} | {*self.torn}):
            self._check_loss(chunk)
        out = {segment.id for segment in self.dropped}
        chunks = {s.id.chunk for s in self.alive.values() if s.id not in self.carried}
        kept = [s for chunk in sorted(chunks) for s in self._of(chunk) if s.id not in out]
        shown = tuple(sorted(self.alive.values(), key=lambda s: s.id))
        self.doubts += contradictions(shown, kept, self.layout)
        return Recovered(
            shown=shown,
            kept=tuple(kept),
            carried=tuple(self.carried[i] for i in sorted(self.carried)),
            dropped=tuple(sorted(self.dropped, key=lambda s: (s.id, s.path))),
            replaced=tuple(self.replaced[i] for i in sorted(self.replaced)),
            overrides=self.layout.overrides,
            doubts=tuple(self.doubts),
        )

    def _check_loss(self, chunk: ChunkKey) -> None:
        """Doubt torn groups with no inputs left to fall back to, and incomplete core sets."""
        above = any(
            s.id.version > chunk.version and s.id.interval.overlaps(chunk.interval)
            for s in self.alive.values()
        )
        if above:
            return  # a standing version above replaced it for good
        spans = [(g.start, g.end) for g in self.timeline.visible_groups(chunk)]
        bare = [
            s
            for s in self.torn.get(chunk, [])
            if not inside(s.shard.root_start, s.shard.root_end, spans)
        ]
        if bare:
            note = f"{chunk} has {len(bare)} of {bare[0].shard.group_size} files of a group"
            self._doubt(Reason.ROWS_LOST, bare, note)
            self._save(chunk, bare)
        elif any(s.id.chunk == chunk for s in self.alive.values()):
            core = self.timeline.core(chunk)
            if core and not inside(0, core, spans):
                note = f"some of the {core} core segments of {chunk} are missing"
                self._doubt(Reason.ROWS_LOST, self._of(chunk), note)

    def _save(self, chunk: ChunkKey, bare: Sequence[Segment]) -> None:
        """Show the remains of a torn group or of its inputs, whichever have more events."""
        for below, newest in remains(bare, [s for s in self.alive.values() if s.id.chunk == chunk]):
            for segment in below:
                del self.alive[segment.id]
                self.dropped.append(segment)
            for segment in newest:
                self.alive[segment.id] = segment
                self._carry(segment, chunk.version)

    def _doubt(self, reason: Reason, segments: Sequence[Segment], note: str) -> None:
        self.doubts.append(doubt_about(reason, segments, note))
