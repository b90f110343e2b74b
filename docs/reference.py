"""Write the API reference as HTML: ``make docs``, or ``python docs/reference.py FOLDER``.

1. ``LIBRARY`` lists the public API by module: the names that users may import. Everything else may
   change without notice. Of the provider's modules, the operators, sensors, triggers and hooks are
   public.
2. The first page lists all names by group (``pages/index.html.jinja2``).
3. pdoc renders the docstrings and downloads nothing. Meanwhile the public names of a module are its
   ``__all__``, so that its page shows no others.
"""

import re
import sys
import warnings
from collections.abc import Mapping
from contextlib import ExitStack
from html import escape
from importlib import import_module
from pathlib import Path
from unittest.mock import patch

import pdoc

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
PAGES = Path(__file__).parent / "pages"
OF_AIRFLOW = re.compile(r"[A-Z]\w+(Operator|Sensor|Trigger|Hook)")


def public_api() -> dict[str, list[str]]:
    """Return the public names by module."""
    given = {f"{PACKAGE}.{module}": names for module, names in LIBRARY.items()}
    info = get_provider_info()
    parts = (part for kind in ("operators", "sensors", "triggers", "hooks") for part in info[kind])
    provided = [module for part in parts for module in part["python-modules"]]
    listed = {module: list(names) or _classes(module) for module, names in given.items()}
    found = {module: list(filter(OF_AIRFLOW.fullmatch, _classes(module))) for module in provided}
    return listed | found


def _classes(module: str) -> list[str]:
    """Return the classes that a module defines."""
    known = vars(import_module(module)).items()
    return [
        name
        for name, value in known
        if isinstance(value, type) and value.__module__ == module and not name.startswith("_")
    ]


def groups(api: Mapping[str, list[str]]) -> dict[str, list[dict[str, str]]]:
    """Return the entries of the first page by group: name, page and first sentence."""
    found: dict[str, list[dict[str, str]]] = {}
    for module, names in api.items():
        part = module.removeprefix(f"{PACKAGE}.").partition(".")[0]
        group = GROUPS.get("errors" if module.endswith(".errors") else part, "Python")
        for name in names:
            about = (getattr(import_module(module), name).__doc__ or "").partition("\n")[0]
            about = re.sub(r"``(.+?)``", r"<code>\1</code>", escape(about))
            page = f"{module.replace('.', '/')}.html"
            found.setdefault(group, []).append({"name": name, "page": page, "about": about})
    return dict(sorted(found.items(), key=lambda each: ORDER.index(each[0])))


def write_reference(folder: Path, api: Mapping[str, list[str]]) -> dict[str, Path]:
    """Write a page for each module, and an index; return the pages by module."""
    pdoc.render.configure(docformat="google", show_source=False, template_directory=PAGES)
    pdoc.render.env.globals["groups"] = groups(api)
    with ExitStack() as meanwhile, warnings.catch_warnings():
        for module, names in api.items():
            meanwhile.enter_context(patch.dict(vars(import_module(module)), __all__=names))
        # Airflow's base classes have annotations that only a type checker can resolve.
        warnings.filterwarnings("ignore", category=UserWarning, module="pdoc")
        pdoc.pdoc(*api, output_directory=folder)
    return {module: folder / f"{module.replace('.', '/')}.html" for module in api}


if __name__ == "__main__":
    target = Path(sys.argv[1])
    pages = write_reference(target, public_api())
    print(f"{len(pages)} pages; begin at {target / 'index.html'}")
