"""Why a version of a table cannot be published in a format.

1. The kind of table decides whether its files show its rows, the format whether it has the types
   of their columns.
2. Most tables are published whatever schemas their files were written with. Only if not all of
   them can be, the files that are shown are looked at: compaction rewrites older ones.
3. The planner is given the schemas of such files, each with the reason (``blocking_schemas``): a
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
    """Return why the version cannot be published, with the way out; empty if it can."""
    table = state.table
    why = unpublished(state)
    if why:
        return why
    if not form.refusal(table, range(len(table.earlier) + 1)):
        return ""
    schemas = {file.segment.schema for file in shown_files(state).values()}
    return form.refusal(table, schemas)


def blocking_schemas(state: State) -> Mapping[int, str]:
    """Return the schemas of shown files that keep a version from being published, and why.

    They are empty if another reason keeps it from that in any case, or if it is not published.
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
    """Refuse properties that ask for a format in which the table can never be published.

    A rollup table may be published whenever it is rolled up perfectly, so it may ask for it.

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
