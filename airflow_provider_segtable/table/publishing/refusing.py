"""Reasons that a version of a table cannot be published in a format.

1. The kind of table decides whether its files show its rows, the format whether it has the types
   of their columns.
2. Most tables are published whatever schemas their files were written with. Only if a format
   refuses one of these schemas, the visible files are read: compaction rewrites older ones.
3. The planner gets the schemas of such files, each with the reason (``blocking_schemas``): a
   compaction of its own makes the table publishable again.
"""

from collections.abc import Mapping

from airflow_provider_segtable.core.errors import PublishingRefused
from airflow_provider_segtable.core.log.state import State
from airflow_provider_segtable.core.publishing import shown_files, unpublished
from airflow_provider_segtable.core.tables.definition import TableDefinition
from airflow_provider_segtable.formats.format import Format
from airflow_provider_segtable.formats.formats import FORMATS
from airflow_provider_segtable.planning.properties import PublishSettings, property_of


def refusal(form: Format, state: State) -> str:
    """Return the reason if the version cannot be published, with the way out, else empty."""
    table = state.table
    why = unpublished(state)
    if why:
        return why
    if not form.refusal(table, range(len(table.earlier) + 1)):
        return ""
    schemas = {file.segment.schema for file in shown_files(state).values()}
    return form.refusal(table, schemas)


def blocking_schemas(state: State) -> Mapping[int, str]:
    """Return the schemas of visible files that block a publication, each with the reason.

    Empty if another reason blocks it in any case, or if the table is not published.
    """
    table, found = state.table, dict[int, str]()
    shown: set[int] | None = None
    for name in PublishSettings.read(table.properties).formats:
        form = FORMATS.get(name)
        newest = table.schema.number
        older = range(newest)
        if form is None or not form.refusal(table, older) or form.refusal(table, {newest}):
            continue
        if shown is None:
            shown = {file.segment.schema for file in shown_files(state).values()}
        for number in shown - {newest}:
            why = form.refusal(table, {number})
            if why:
                found.setdefault(number, f"it cannot be published as {form.title}, because {why}")
    return found


def check_published(table: TableDefinition) -> None:
    """Refuse properties that switch on a format in which the table can never be published.

    A rollup table may switch one on: it can be published whenever it is rolled up perfectly.

    Raises:
        InvalidInput: a property is malformed.
        PublishingRefused: with the property, the reason and the way out.
    """
    switched = PublishSettings.read(table.properties).formats
    for name, form in FORMATS.items():
        if name not in switched:
            continue
        why = table.kind.unpublished(table.schema, ())
        why = why or form.refusal(table, {table.schema.number})
        if why:
            raise PublishingRefused(f"property {property_of(name)} of {table.name}: {why}")
