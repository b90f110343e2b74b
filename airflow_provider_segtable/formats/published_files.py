"""The files of a published version, as a mapping that versions share.

1. A version has the files of the one before, except for a few. So it keeps these beside the
   mapping that both share: making it costs what changed, not what the table has.
2. Once the changes are more than the square root of what is shared, all is copied into one
   mapping. Then a change of one file among n costs about the square root of n, at most.
3. Two versions that share a mapping differ in their own changes alone.
"""

from collections.abc import Iterator, Mapping

from airflow_provider_segtable.formats.format import PublishedFile

LEAST = 32
"""Number of changes that are kept beside however few files."""


class PublishedFiles(Mapping[str, PublishedFile]):
    """Files by path; immutable."""

    __slots__ = ("_changes", "_length", "_shared")

    def __init__(self, files: Mapping[str, PublishedFile]) -> None:
        """Wrap files, which must not change from now on."""
        self._shared: Mapping[str, PublishedFile] = files
        self._changes: dict[str, PublishedFile | None] = {}
        self._length = len(files)

    @staticmethod
    def of(files: Mapping[str, PublishedFile]) -> "PublishedFiles":
        """Return files as this mapping."""
        return files if isinstance(files, PublishedFiles) else PublishedFiles(files)

    def __getitem__(self, path: str) -> PublishedFile:
        """Return the file of a path."""
        found = self._changes[path] if path in self._changes else self._shared[path]
        if found is None:
            raise KeyError(path)
        return found

    def __iter__(self) -> Iterator[str]:
        """Yield the paths."""
        yield from (path for path in self._shared if path not in self._changes)
        yield from (path for path, file in self._changes.items() if file is not None)

    def __len__(self) -> int:
        """Return the number of files."""
        return self._length

    def __repr__(self) -> str:
        """Return the number of files."""
        return f"PublishedFiles({self._length})"

    def changed(self, changes: Mapping[str, PublishedFile | None]) -> "PublishedFiles":
        """Return the files with some added or replaced; with None, a path is removed."""
        if not changes:
            return self
        made = PublishedFiles(self._shared)
        made._changes = {**self._changes, **changes}
        before = sum(path in self for path in changes)
        after = sum(file is not None for file in changes.values())
        made._length = self._length + after - before
        whole = max(len(made._changes), LEAST) ** 2 > max(len(self._shared), LEAST**2)
        return PublishedFiles({**made}) if whole else made

    def differing(self, other: Mapping[str, PublishedFile]) -> set[str]:
        """Return the paths whose keys differ, or that only one of both has."""
        if isinstance(other, PublishedFiles) and other._shared is self._shared:  # noqa: SLF001
            paths = self._changes.keys() | other._changes.keys()  # noqa: SLF001
        else:
            paths = self.keys() | other.keys()
        return {path for path in paths if _key(self, path) != _key(other, path)}


def _key(files: Mapping[str, PublishedFile], path: str) -> str | None:
    found = files.get(path)
    return None if found is None else found.key
