"""Find a fleet's tables through a connection, for operators and for the trigger that watches."""

from dataclasses import replace

from airflow_provider_segtable.hooks.segtable import Place
from airflow_provider_segtable.planning.fleet.fleet import Fleet
from airflow_provider_segtable.services.fleet_tables import FoundTables, find_tables, load_fleet
from airflow_provider_segtable.storage import open_storage


def fleet_of(file: str, place: Place) -> tuple[Fleet, Place]:
    """Read a fleet file, with the connection's options for object stores.

    Returns:
        The fleet, and the connection's settings with the root of the fleet's tables: the
        connection's, or else the file's.
    """
    fleet = load_fleet(file, dict(place.storage_options))
    return fleet, replace(place, root=place.root or fleet.root)


def tables_of(fleet: Fleet, place: Place) -> FoundTables:
    """Find the tables of a fleet below its root."""
    options = place.storage_options
    return find_tables(fleet, lambda uri: open_storage(uri or place.root, options))
