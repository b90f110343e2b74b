"""Changes of the rows of a primary-key table: which requests are possible, and what they write.

1. A change reads one version, and writes a record for each row that it changes: a tombstone, or an
   upsert. So it may set any column but the key and the event time, which decide where a row is.
2. A merge joins by the columns of the primary key: then each source row has one row of the table at
   most in a time chunk, and what it inserts is known by its key.
3. With ``partial_update`` a record sets the columns that the change sets, and the groups that they
   are in; the others stay with their own records. A null sets nothing outside a group, so a change
   that would set one is refused.
"""

from collections.abc import Collection, Iterable

from airflow_provider_segtable.core.errors import InvalidInput
from airflow_provider_segtable.core.requests.change_request import ChangeRequest, Merge, Update
from airflow_provider_segtable.core.tables.keyed.merge_rules import MergeRules


def check_request(rules: MergeRules, time_column: str, request: ChangeRequest, uri: str) -> None:
    """Refuse a merge by other columns than the key, and new values of key or event time.

    Raises:
        InvalidInput: with the columns and the way out.
    """
    if isinstance(request, Merge) and {*request.keys} != {*rules.key}:
        on = ", ".join(request.keys) or str(request.on)
        raise InvalidInput(
            f"{uri} has the primary key {', '.join(rules.key)}, and the merge joins on {on}: join "
            "on the key; or upsert whole rows (segtable ingest, Table.upsert), or update the rows "
            "that match (segtable update --matches, Table.update)"
        )
    if isinstance(request, Merge | Update):
        for name in request.set or ():
            if name in (*rules.key, time_column):
                raise InvalidInput(
                    f"column {name!r} of {uri} decides where a row is kept, so it cannot be set: "
                    "delete the row, and upsert it anew"
                )


def unset(rules: MergeRules, names: Iterable[str], given: Collection[str]) -> tuple[str, ...]:
    """Return the columns that are null in a record which sets some columns.

    Args:
        rules: the table's rules.
        names: all columns of the table.
        given: the columns that are set.
    """
    if not rules.partial:
        return ()
    keep = {*rules.key, rules.ordering, *rules.fixed, *given}
    for group in rules.groups:
        if not keep.isdisjoint(group.names):
            keep.update(group.names)
    return tuple(name for name in names if name not in keep)


def lost_null(name: str, rows: str) -> str:
    """Return why a column cannot be set to null (``rows`` says in which rows)."""
    return (
        f"column {name!r} would be set to null in {rows}: with merge='partial_update' a null "
        "outside a column group sets nothing, so the old value would stay; set another value, or "
        "delete the row and upsert it anew"
    )
