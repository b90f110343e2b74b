"""The properties of a table, as the help of a command lists them."""

from dataclasses import fields

from airflow_provider_segtable.planning.properties import FAMILIES, INDEX_PREFIX


def property_list() -> str:
    """Return all properties, one paragraph a family; those of indexes begin with their names."""
    named = {INDEX_PREFIX: [f"{INDEX_PREFIX}.NAME (the index to have)"]}
    lists = (
        ", ".join((*named.get(family, ()), *(f"{family}.{each.name}" for each in fields(default))))
        for family, default in FAMILIES.items()
    )
    return "Properties:\n\n" + "\n\n".join(lists)
