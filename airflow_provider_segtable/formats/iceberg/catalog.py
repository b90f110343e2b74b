"""Registration of a published table in an Iceberg catalog, by pyiceberg.

1. ``publish.iceberg_catalog`` names a catalog of pyiceberg's configuration, and
   ``publish.iceberg_table`` the table in it: ``namespace.table``.
2. A table that the catalog does not know is registered with the newest version's metadata. After
   that, each version's snapshot is committed to the catalog, which then has metadata of its own,
   on the condition that its newest snapshot is still the one that was read.
3. A catalog never returns to an earlier version: it stays as it is if its sequence number is not
   lower than ours.
4. A table with another id, as after a drop, or in another place, is registered anew, and so is one
   with missing metadata. A table that segtable did not write is left alone.
5. A failure is returned as a reason, never raised: the version is published, and readers by its
   address see it. The next publication makes up for it.
"""

import json
from typing import TYPE_CHECKING, Any

from airflow_provider_segtable.core.errors import (
    CommitConflict,
    DependencyMissing,
    ForeignTable,
    InvalidInput,
    SegtableError,
)
from airflow_provider_segtable.formats.format import Published
from airflow_provider_segtable.formats.iceberg import names
from airflow_provider_segtable.formats.iceberg.metadata import TABLE_ID

if TYPE_CHECKING:
    from pyiceberg.catalog import Catalog
    from pyiceberg.table import Table

Json = dict[str, Any]
TRIES = 3
"""Most attempts of a commit that other publishers overtake."""


def register(published: Published, catalog: str, table: str) -> str:
    """Bring a catalog to a published version; return the reason if it failed, else empty.

    Args:
        published: the version.
        catalog: the name of the catalog.
        table: the table's identifier there.
    """
    try:
        _register(_opened(catalog), table, published)
    except SegtableError as error:
        return f"{error}"
    except Exception as error:  # noqa: BLE001 - each catalog has errors of its own; rule 5
        return (
            f"the Iceberg catalog {catalog!r} did not take event {published.event} of table "
            f"{table!r} ({type(error).__name__}: {f'{error}'[:300]}): see to the catalog, then "
            "publish again"
        )
    return ""


def _opened(name: str) -> "Catalog":
    try:
        from pyiceberg.catalog import load_catalog
    except ImportError as error:
        raise DependencyMissing(
            f"package pyiceberg, which publish.iceberg_catalog = {name!r} needs, is not "
            "installed: pip install 'airflow-provider-segtable[iceberg]'"
        ) from error
    return load_catalog(name)


def _register(catalog: "Catalog", identifier: str, published: Published) -> None:
    from pyiceberg.exceptions import CommitFailedException, NoSuchTableError

    if "." not in identifier:
        raise InvalidInput(
            f"publish.iceberg_table = {identifier!r} has no namespace: write namespace.table"
        )
    wanted: Json = published.own.metadata
    for _ in range(TRIES):
        try:
            table = catalog.load_table(identifier)
        except NoSuchTableError:
            _register_new(catalog, identifier, published)
            return
        except FileNotFoundError:  # it was moved, or swept before its first commit there
            catalog.drop_table(identifier)
            continue
        known: Json = json.loads(table.metadata.model_dump_json())
        if not _is_published_table(known, wanted, identifier):
            catalog.drop_table(identifier)
            _register_new(catalog, identifier, published)
            return
        if known["last-sequence-number"] >= wanted["last-sequence-number"]:
            return
        try:
            _commit(catalog, table, known, wanted)
        except CommitFailedException:
            continue
        return
    raise CommitConflict(
        f"other publishers brought table {identifier!r} in the Iceberg catalog "
        f"{catalog.name!r} on {TRIES} times meanwhile: publish again"
    )


def _register_new(catalog: "Catalog", identifier: str, published: Published) -> None:
    """Register a table that the catalog does not know."""
    catalog.create_namespace_if_not_exists(catalog.namespace_from(identifier))
    folder = published.address.removesuffix(names.FOLDER)
    catalog.register_table(identifier, f"{folder}{names.version_path(published.number)}")


def _is_published_table(known: Json, wanted: Json, identifier: str) -> bool:
    """Return whether a catalog's table is the published one; rule 4."""
    if TABLE_ID not in known["properties"]:
        raise ForeignTable(
            f"table {identifier!r} in the Iceberg catalog is one that segtable did not publish: "
            "name another one in publish.iceberg_table, or drop it there"
        )
    return all(known[name] == wanted[name] for name in ("table-uuid", "location"))


def _commit(catalog: "Catalog", table: "Table", known: Json, wanted: Json) -> None:
    from pyiceberg.table import CommitTableRequest

    *namespace, name = table.name()
    request = CommitTableRequest.model_validate(
        {
            "identifier": {"namespace": namespace, "name": name},
            "requirements": _requirements(known),
            "updates": updates(known, wanted),
        }
    )
    catalog.commit_table(table, request.requirements, request.updates)


def _requirements(known: Json) -> list[Json]:
    newest = known["current-snapshot-id"]
    return [
        {"type": "assert-table-uuid", "uuid": known["table-uuid"]},
        {"type": "assert-ref-snapshot-id", "ref": "main", "snapshot-id": newest},
    ]


def updates(known: Json, wanted: Json) -> list[Json]:
    """Return the updates, in Iceberg's API, from a catalog's metadata to the wanted ones."""
    found: list[Json] = []
    number, newest = wanted["current-schema-id"], wanted["current-snapshot-id"]
    if number != known["current-schema-id"]:
        have = {schema["schema-id"] for schema in known["schemas"]}
        new = [s for s in wanted["schemas"] if s["schema-id"] == number and number not in have]
        found += [{"action": "add-schema", "schema": schema} for schema in new]
        last_added = -1
        found.append({"action": "set-current-schema", "schema-id": last_added if new else number})
    if wanted["properties"] != known["properties"]:
        found.append({"action": "set-properties", "updates": wanted["properties"]})
    (snapshot,) = (each for each in wanted["snapshots"] if each["snapshot-id"] == newest)
    found.append({"action": "add-snapshot", "snapshot": snapshot})
    branch = {"ref-name": "main", "type": "branch", "snapshot-id": newest}
    found.append({"action": "set-snapshot-ref", **branch})
    kept = {each["snapshot-id"] for each in wanted["snapshots"]}
    gone = [each["snapshot-id"] for each in known["snapshots"]]
    gone = [each for each in gone if each not in kept]
    return [*found, *([{"action": "remove-snapshots", "snapshot-ids": gone}] if gone else [])]
