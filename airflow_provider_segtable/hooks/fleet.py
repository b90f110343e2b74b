"""Find a fleet's tables through a connection, for operators and for the trigger that watches."""

from dataclasses import replace
from typing import TYPE_CHECKING

from airflow_provider_segtable.core.time import Instant
from airflow_provider_segtable.hooks.segtable import Place
from airflow_provider_segtable.planning.fleet.fleet import Fleet

if TYPE_CHECKING:
    from airflow_provider_segtable.planning.fleet.fleet_memory import FoundTables


def fleet_of(file: str, place: Place) -> tuple[Fleet, Place]:
    """Read a fleet file, with the connection's options for object stores.

    Returns:
        The fleet, and the connection's settings with the root of the fleet's tables: the
        connection's, or else the file's.
    """
    from airflow_provider_segtable.services.fleet_tables import load_fleet

    fleet = load_fleet(file, dict(place.storage_options))
    return fleet, replace(place, root=place.root or fleet.root)


def tables_of(
    fleet: Fleet, place: Place, before: "FoundTables | None", now: Instant
) -> "FoundTables":
    """Find the tables of a fleet below its root, unless they were found some minutes ago."""
    from airflow_provider_segtable.services.fleet_tables import tables_again
    from airflow_provider_segtable.storage import open_storage

    options = place.storage_options
    return tables_again(fleet, lambda uri: open_storage(uri or place.root, options), before, now)
