"""The commit ids of recent events, by which a committer recognises its own event.

1. Each event has one commit id. The ids of the newest ``keep`` events are kept, oldest first.
2. Adding one costs O(sqrt(keep)), because old ids leave in bulk (``PersistentMap``).
"""

from collections.abc import Iterator, Mapping

from airflow_provider_segtable.core.persistent_map import PersistentMap


class RecentCommits(Mapping[str, int]):
    """Event numbers by commit id. Immutable: changes return a new one."""

    __slots__ = ("_entries", "_first")

    def __init__(self, entries: Mapping[str, int] | None = None, first: int = 0) -> None:
        """Wrap ``entries``; entries of events below ``first`` are ignored."""
        mapping = entries if isinstance(entries, PersistentMap) else PersistentMap(entries)
        self._entries: PersistentMap[str, int] = mapping
        self._first = first

    def __getitem__(self, commit: str) -> int:
        """Return the number of the event with this commit id."""
        n = self._entries[commit]
        if n < self._first:
            raise KeyError(commit)
        return n

    def __iter__(self) -> Iterator[str]:
        """Yield the commit ids, oldest first."""
        return (commit for commit, n in self._entries.items() if n >= self._first)

    def __len__(self) -> int:
        """Return the number of kept commit ids."""
        return sum(1 for _ in self)

    def __eq__(self, other: object) -> bool:
        """Compare as a mapping."""
        return isinstance(other, Mapping) and dict(self) == dict(other)

    __hash__ = None  # type: ignore[assignment]

    def added(self, commits: Mapping[str, int], n: int, keep: int) -> "RecentCommits":
        """Return the ids with those of later events, up to ``n``; the last ``keep`` are kept."""
        first = max(self._first, n - keep + 1)
        entries = self._entries.with_entries(commits, keep=lambda old: old >= first)
        return RecentCommits(entries, first)
