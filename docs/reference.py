"""Write the API reference as Markdown: pages of the site, which ``make docs`` builds.

1. ``LIBRARY`` lists the public API by module: the names that users may import. Everything else may
   change without notice. Of the provider's modules, the operators, sensors, triggers and hooks are
   public.
2. The first page lists all names by group, each with its first sentence.
3. A module's page has its public names and their own public members. pdoc reads the docstrings.
   Of an operator, sensor or trigger only the arguments matter to a DAG: no member is shown.
4. The id of a heading is the name in the module: ``table.md#Table.scan``.
"""

import re
import warnings
from collections.abc import Iterator, Mapping
from functools import cache
from html import escape
from importlib import import_module
from pathlib import Path
from typing import Any

import pdoc.doc
import pdoc.docstrings

from airflow_provider_segtable.provider_info import get_provider_info

PACKAGE = "airflow_provider_segtable"
LIBRARY: Mapping[str, tuple[str, ...]] = {
    "library.table": ("Table",),
    "library.log_writer": ("TableLogWriter",),
    "library.log_reader": ("TableLogReader", "BucketReset", "BucketExpired"),
    "table.log_store.tail": ("LogRecords",),
    "core.log_store.reading": ("LogLag", "BucketLag"),
    "table.table": ("Table",),
    "table.table_changes": ("TableChanges",),
    "table.table_indexes": ("TableIndexes",),
    "core.indexes.index_state": ("IndexState", "IndexStatus", "IndexGap", "IndexDefinition"),
    "core.log_store.manifest": ("BucketManifest",),
    "table.scan": ("Scan",),
    "table.snapshot": ("Snapshot",),
    "table.append": ("AppendResult",),
    "table.load": ("Loaded",),
    "table.adoption": ("Adoption",),
    "data.adoption.decision": ("Decision", "Action"),
    "data.adoption.file_facts": ("FileFacts", "TimeBounds"),
    "core.requests.csv_format": ("CsvFormat",),
    "table.changes.row_change": ("ChangeResult",),
    "services.index_run": ("IndexRun",),
    "core.reads.selection": (
        *("ReadPlan", "PruneStep", "Extent", "FilePlan", "GroupPlan"),
        "PrunedBy",
    ),
    "core.requests.change_request": ("Sql",),
    "core.tables.rollup_kind": ("Metric", "QueryGranularity", "Rollup"),
    "core.tables.evolution": (
        "AddColumn",
        "DropColumn",
        "MakeNullable",
        "RenameColumn",
        "Reorder",
        "WidenColumn",
    ),
    "core.errors": (),  # all of them
    "spark.reads.dataframe_scan": ("scan",),
    "spark.source.registration": ("register",),
    "spark.writes.dataframe_ingest": ("ingest",),
    "spark.writes.spark_engine": ("overwrite",),
    "assets.table_asset": ("segtable_asset",),
    "dag_factory": ("CompactionDags", "compaction_dags"),
}
GROUPS = {
    "errors": "Errors",
    "spark": "Spark",
    **{part: part.capitalize() for part in ("operators", "sensors", "triggers", "hooks")},
    "assets": "DAGs",
    "dag_factory": "DAGs",
}
"""The group of a public module by its first part; all others are of the Python library."""
ORDER = ("Python", "Spark", "DAGs", "Operators", "Sensors", "Hooks", "Triggers", "Errors")
OF_AIRFLOW = re.compile(r"[A-Z]\w+(Operator|Sensor|Trigger|Hook)")
OF_DAG_FILES = ("Operators", "Sensors", "Triggers")
TITLE = re.compile(r"^#{3,6} (.+)$", re.MULTILINE)
MODULE_PATH = re.compile(r"\b(?:[a-z_]+\.)+(?=[A-Z])")


def public_api() -> dict[str, list[str]]:
    """Return the public names by module."""
    given = {f"{PACKAGE}.{module}": names for module, names in LIBRARY.items()}
    info = get_provider_info()
    parts = (part for kind in ("operators", "sensors", "triggers", "hooks") for part in info[kind])
    provided = [module for part in parts for module in part["python-modules"]]
    listed = {module: list(names) or _classes(module) for module, names in given.items()}
    found = {module: list(filter(OF_AIRFLOW.fullmatch, _classes(module))) for module in provided}
    return {module: names for module, names in (listed | found).items() if names}


@cache
def public_modules() -> frozenset[str]:
    """Return the modules that have a page."""
    return frozenset(public_api())


def _classes(module: str) -> list[str]:
    """Return the classes that a module defines."""
    known = vars(import_module(module)).items()
    return [
        name
        for name, value in known
        if isinstance(value, type) and value.__module__ == module and not name.startswith("_")
    ]


def page_name(module: str) -> str:
    """Return the file name of a module's page."""
    return f"{module.removeprefix(f'{PACKAGE}.')}.md"


def group_of(module: str) -> str:
    """Return the group of a module's names on the first page."""
    part = module.removeprefix(f"{PACKAGE}.").partition(".")[0]
    return GROUPS.get("errors" if module.endswith(".errors") else part, "Python")


def first_page(api: Mapping[str, list[str]]) -> str:
    """Return the list of all public names by group."""
    lines = ["# API reference", "", "The public names by group. Everything else may change."]
    for group in ORDER:
        modules = [module for module in api if group_of(module) == group]
        lines += ["", f"## {group}", "", "| name | |", "|---|---|"]
        lines += [line for module in modules for line in _entries(module, api[module])]
    return "\n".join([*lines, ""])


def _entries(module: str, names: list[str]) -> Iterator[str]:
    for name in names:
        about = (getattr(import_module(module), name).__doc__ or "").strip().partition("\n")[0]
        yield f"| [`{name}`]({page_name(module)}#{name}) | {in_cell(about)} |"


def in_cell(text: str) -> str:
    """Return text that is safe in a cell of a Markdown table."""
    return escape(text, quote=False).replace("|", "\\|").replace("\n", " ")


def module_page(module: str, names: list[str]) -> str:
    """Return the page of a module: its import path, its public names and their members."""
    short = module.removeprefix(f"{PACKAGE}.")
    lines = [f"# {short}", "", f"`from {module} import {', '.join(names[:1])}`", ""]
    known = pdoc.doc.Module(import_module(module)).members
    for name in names:
        lines += _described(
            known[name], name, level=2, members=group_of(module) not in OF_DAG_FILES
        )
    return "\n".join(lines)


def _described(
    value: pdoc.doc.Doc[Any], path: str, *, level: int, members: bool = True
) -> Iterator[str]:
    """Yield a heading, the signature, the docstring, and a class's own public members."""
    yield f'{"#" * level} {value.name} {{ id="{path}" .api }}'
    yield ""
    if signature := _signature(value):
        yield from ("```python", signature, "```", "")
    yield from (prose(value.docstring), "")
    if isinstance(value, pdoc.doc.Class):
        bases = (base for base, _, _ in value.bases if base.startswith(PACKAGE))
        listed = {module for module in bases if module in public_modules()}
        if links := ", ".join(f"[{base}]({page_name(base)})" for base in sorted(listed)):
            yield from (f"Inherited: see {links}.", "")
        for member in value.own_members if members else ():
            if not member.name.startswith("_") and member.docstring:
                yield from _described(member, f"{path}.{member.name}", level=level + 1)


def _signature(value: pdoc.doc.Doc[Any]) -> str:
    return MODULE_PATH.sub("", _declared(value))


def _declared(value: pdoc.doc.Doc[Any]) -> str:
    match value:
        case pdoc.doc.Class():
            made = value.members.get("__init__")
            if isinstance(made, pdoc.doc.Function) and made.taken_from[0].startswith(PACKAGE):
                return f"class {value.name}{made.signature_without_self}"
            return f"class {value.name}"
        case pdoc.doc.Function():
            return f"def {value.name}{value.signature_without_self}"
        case pdoc.doc.Variable():
            return f"{value.name}{value.annotation_str}"
    return ""


def prose(docstring: str) -> str:
    """Return a docstring as Markdown; titles of its sections are no headings of the page."""
    text = pdoc.docstrings.convert(docstring, "google", None)
    return TITLE.sub(r"\n**\1**\n", text)


def write_reference(folder: Path, api: Mapping[str, list[str]]) -> dict[str, Path]:
    """Write a page for each module, and an index; return the pages by module."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "index.md").write_text(first_page(api))
    pages = {module: folder / page_name(module) for module in api}
    with warnings.catch_warnings():
        # Airflow's base classes have annotations that only a type checker can resolve.
        warnings.filterwarnings("ignore", category=UserWarning, module="pdoc")
        for module, page in pages.items():
            page.write_text(module_page(module, api[module]))
    return pages
