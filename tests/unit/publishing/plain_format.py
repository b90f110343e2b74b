"""The smallest format: one JSON file a version, with all files and the positions of hidden rows."""

import json
import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any, ClassVar

from pyroaring import BitMap

from airflow_provider_segtable.core.errors import AlreadyExists, CorruptTable, ForeignTable
from airflow_provider_segtable.core.tables.definition import TableDefinition
from airflow_provider_segtable.core.time import Instant
from airflow_provider_segtable.formats.format import Contents, Published, PublishedFile, Revision
from airflow_provider_segtable.ports.storage import Entry, Storage

FOLDER = "_plain"
_SAID = ("event", "commit", "time", "table_id", "schema", "rules")
_OWN = re.compile(rf"{FOLDER}/[0-9]{{20}}\.json")


@dataclass(frozen=True, slots=True)
class PlainTarget:
    """The versions below ``_plain``."""

    storage: Storage

    @property
    def address(self) -> str:
        """Return the folder."""
        return f"{self.storage.uri}/{FOLDER}"

    def load(self, known: Published | None = None) -> Published | None:
        """Return the newest version."""
        entries = self._entries()
        if not entries:
            return None
        newest = _number(entries[-1])
        return known if known and known.number == newest else self.version(newest)

    def version(self, number: int) -> Published:
        """Return one version."""
        found = self.storage.read(_path(number))
        try:
            said = json.loads(found)
        except ValueError as error:
            raise CorruptTable(f"{self.address}: version {number} is unreadable") from error
        if said.get("by") != "segtable":
            raise ForeignTable(f"{self.address} was not written by segtable: move it elsewhere")
        return Published(
            number=number,
            files={path: PublishedFile(path=path, **each) for path, each in said["files"].items()},
            address=self.address,
            **{name: said[name] for name in _SAID},
        )

    def remains(self) -> Published | None:
        """Return what a version with all files can follow."""
        entries = self._entries()
        if not entries:
            return None
        try:
            last = self.version(_number(entries[-1]))
        except CorruptTable:
            last = Published(
                number=_number(entries[-1]), event=-1, commit="", time=0, table_id="", schema=-1,
                files={}, address=self.address,
            )  # fmt: skip
        return replace(last, commit="", table_id="")

    def holds(self, put: Published) -> bool:
        """Return whether it is there: a version is one file."""
        return any(_number(each) >= put.number for each in self._entries())

    def take_back(self, put: Published) -> None:
        """Delete a version."""
        if self.load() == put:
            self.storage.delete(_path(put.number))

    def put(self, known: Published | None, revision: Revision) -> Published | None:
        """Put the next version."""
        number = known.number + 1 if known else 0
        same = known is not None and known.table_id == revision.table.table_id
        before = known.files if known and same else {}
        files: dict[str, dict[str, Any]] = {
            path: {"key": each.key, "own": each.own}
            for path, each in before.items()
            if path not in revision.gone
        } | {
            path: {
                "key": each.shown.key,
                "own": {
                    "hidden": each.hidden.to_array().tolist(),
                    "rows": each.shown.segment.rows,
                },
            }
            for path, each in revision.shown.items()
        }
        said = {
            "by": "segtable",
            "event": revision.event,
            "commit": revision.commit,
            "time": revision.time,
            "table_id": revision.table.table_id,
            "schema": revision.table.schema.number,
            "files": files,
            "rules": revision.rules,
            "mark": _mark(number, revision.event),
            "after": _mark(known.number, known.event) if known and same else "",
        }
        try:
            self.create(_path(number), json.dumps(said).encode())
        except AlreadyExists:
            return None
        return self.version(number)

    def create(self, path: str, data: bytes) -> None:
        """Create a version's file, unless there is one."""
        self.storage.create(path, data)

    def contents(self, head: Published) -> Mapping[str, Contents]:
        """Return the rows of each file, and the hidden ones."""
        own = {path: each.own for path, each in head.files.items()}
        return {p: Contents(rows=o["rows"], hidden=BitMap(o["hidden"])) for p, o in own.items()}

    def needed(self, since: Instant) -> frozenset[str]:
        """Return what readers may need."""
        entries = self._entries()
        recent = [_number(each) for each, after in pairwise(entries) if after.modified > since]
        chosen = [*recent, *map(_number, entries[-1:])]
        return frozenset(path for number in chosen for path in self.version(number).files)

    def sweep(self, since: Instant, *, dry_run: bool = False) -> tuple[str, ...]:
        """Delete replaced versions."""
        old = [each.path for each, after in pairwise(self._entries()) if after.modified <= since]
        for path in old if not dry_run else ():
            self.storage.delete(path)
        return tuple(old)

    def _entries(self) -> list[Entry]:
        return [each for each in self.storage.list(FOLDER) if _OWN.fullmatch(each.path)]


class PlainFormat:
    """A format whose reader is ``hidden_rows``."""

    name: ClassVar[str] = "plain"
    title: ClassVar[str] = "plain files"
    folders: ClassVar[tuple[str, ...]] = (FOLDER,)

    def target(self, storage: Storage, randomness: object = None) -> PlainTarget:  # noqa: ARG002
        """Return the target in a root."""
        return PlainTarget(storage)

    def refusal(self, table: TableDefinition, schemas: Collection[int]) -> str:  # noqa: ARG002
        """Refuse nothing."""
        return ""

    def register(self, published: Published, properties: Mapping[str, str]) -> str:  # noqa: ARG002
        """Return nothing: readers open the table by its address."""
        return ""

    def is_own(self, path: str) -> bool:
        """Return whether a version's file is of this name."""
        return bool(_OWN.fullmatch(path))


def _path(number: int) -> str:
    return f"{FOLDER}/{number:020d}.json"


def _mark(number: int, event: int) -> str:
    return f"{number} of {event}"


def _number(entry: Entry) -> int:
    return int(entry.path.removeprefix(f"{FOLDER}/").removesuffix(".json"))
