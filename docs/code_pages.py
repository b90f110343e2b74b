"""Write the reference pages that are read off the code: commands, properties, errors and more.

Each function returns one page as Markdown. Texts come from the code (help of the commands,
docstrings of settings, error types and operators), so a page changes with it.

1. ``commands``: every command of ``segtable`` with its arguments and options, from typer.
2. ``properties``: every property of a table with its default, from the settings' dataclasses.
3. ``errors``: every error type with its exit code, and the remedies of ``docs/errors.md``.
4. ``airflow``: operators, sensors, triggers, links, and the fields of the connection.
5. ``numbers``: the JSON of ``describe`` for a new table, and the codes of all findings, with their
   meanings from the guides.
6. ``metrics``: every metric that the operators send, from ``operators.metrics``.
"""

import json
import re
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import fields
from importlib import import_module
from inspect import cleandoc
from pathlib import Path
from typing import Any
from unittest.mock import patch

import typer
from typer.testing import CliRunner

from airflow_provider_segtable.cli.app import app
from airflow_provider_segtable.core import errors as error_tree
from airflow_provider_segtable.operators.metrics import METRICS
from airflow_provider_segtable.planning.properties import FAMILIES
from airflow_provider_segtable.provider_info import get_provider_info
from docs.hooks import heading_id
from docs.reference import PACKAGE, group_of, in_cell, page_name, public_api

ROOT = Path(__file__).parents[1]
MARKUP = re.compile(r"(?<!\\)\[/?[a-z ]*\]")
ATTRIBUTE = re.compile(r"^ {4}(\w+): ((?:.|\n(?! {4}\w+: |\n))+)", re.MULTILINE)
CODE = re.compile(r'\bcode="([a-z-]+)"(?: if [\w.]+ else "([a-z-]+)")?')


def commands() -> str:
    """Return the page of the command line."""
    lines = ["# Commands", "", "Every command takes `--help`; exit codes are at the end.", ""]
    for path, command in _commands("segtable", typer.main.get_command(app)):
        lines += [*_command(path, command), ""]
    _, _, codes = (typer.main.get_command(app).help or "").partition("Exit codes:\n")
    return "\n".join([*lines, "## Exit codes", "", "```", codes.strip("\n"), "```", ""])


def _commands(path: str, group: Any) -> Iterator[tuple[str, Any]]:
    for name, command in sorted(group.commands.items()):
        if hasattr(command, "commands"):
            yield from _commands(f"{path} {name}", command)
        else:
            yield f"{path} {name}", command


def _command(path: str, command: Any) -> Iterator[str]:
    given = [param for param in command.params if not param.hidden]
    arguments = [_argument(param) for param in given if param.param_type_name == "argument"]
    yield from (f"## {path}", "", "```", " ".join([path, *arguments, "[OPTIONS]"]), "```", "")
    yield from (_help(command.help), "", "| argument or option | meaning |", "|---|---|")
    for param in given:
        default = f" Default: {shown}." if (shown := _default(param)) else ""
        yield f"| {_spelled(param)} | {in_cell(_plain(param.help or ''))}{default} |"


def _argument(param: Any) -> str:
    name = param.metavar or param.name.upper()
    name = f"{name}..." if param.nargs == -1 else name
    return name if param.required else f"[{name}]"


def _spelled(param: Any) -> str:
    if param.param_type_name == "argument":
        return f"`{_argument(param)}`"
    names = ", ".join(f"`{name}`" for name in (*param.opts, *param.secondary_opts))
    return names if param.is_flag or not param.metavar else f"{names} `{param.metavar}`"


def _default(param: Any) -> str:
    shown = param.default not in (None, False, "", [], ()) and param.show_default
    return f"`{in_cell(str(param.default))}`" if shown and not callable(param.default) else ""


def _plain(text: str) -> str:
    return MARKUP.sub("", text).replace("\\[", "[")


def _help(text: str) -> str:
    """Return help as Markdown: examples, which are green, become blocks of code."""
    parts = cleandoc(text).split("\n\n")
    blocks = (
        f"```\n{_plain(part)}\n```" if part.startswith("[green]") else _plain(part)
        for part in parts
    )
    return "\n\n".join(blocks)


def properties() -> str:
    """Return the page of the properties."""
    lines = ["# Properties", ""]
    lines += ["Set them by `table create --property KEY=VALUE`, later by `table set`.", ""]
    for family, default in FAMILIES.items():
        meanings = attributes(type(default))
        lines += [f"## {family}", "", first_line(type(default)), ""]
        lines += ["| property | default | meaning |", "|---|---|---|"]
        for each in fields(default):
            value = getattr(default, each.name)
            shown = f"`{value:g}`" if isinstance(value, float) else f"`{value}`" if value else ""
            lines.append(f"| `{family}.{each.name}` | {shown} | {in_cell(meanings[each.name])} |")
        lines.append("")
    return "\n".join(lines)


def attributes(kind: type) -> dict[str, str]:
    """Return the meanings of a dataclass's fields, from its docstring."""
    _, _, listed = cleandoc(kind.__doc__ or "").partition("Attributes:\n")
    return {name: re.sub(r"\s+", " ", text) for name, text in ATTRIBUTE.findall(f"{listed}\n")}


def first_line(value: Any) -> str:
    """Return the first line of a docstring."""
    return cleandoc(value.__doc__ or "").partition("\n")[0]


def errors() -> str:
    """Return the page of the error types."""
    rows = remedies()
    lines = [
        "# Error types",
        "",
        "Base class: `SegtableError`, in",
        f"`{PACKAGE}.core.errors`.",
        "",
    ]
    for name, kind in vars(error_tree).items():
        if isinstance(kind, type) and issubclass(kind, error_tree.SegtableError):
            lines += [f"## {name}", "", cleandoc(kind.__doc__ or "").partition("\n\n")[0], ""]
            lines += [f"A `{kind.__mro__[1].__name__}`; exit code {int(kind.exit_code)}.", ""]
            if name in rows:
                lines += ["| situation | remedy |", "|---|---|", *rows[name], ""]
    return "\n".join(lines)


def remedies() -> dict[str, list[str]]:
    """Return situations and remedies by error type, from the rows of ``docs/errors.md``."""
    found: dict[str, list[str]] = {}
    for line in (ROOT / "docs" / "errors.md").read_text().splitlines():
        cells = re.split(r"(?<!\\)\|", line)[1:-1]
        for name in re.findall(r"`(\w+)`", cells[1]) if len(cells) == 4 else ():
            remedy = cells[3].strip().replace("](", "](../")
            found.setdefault(name, []).append(f"| {cells[0].strip()} | {remedy} |")
    return found


def airflow() -> str:
    """Return the page of the provider's classes, links and connection fields."""
    lines = ["# Operators, sensors and the connection", ""]
    for group in ("Operators", "Sensors", "Triggers", "Hooks"):
        found = [
            (module, name)
            for module, names in public_api().items()
            for name in names
            if group_of(module) == group
        ]
        for title, bases in ((group, False), (f"Bases of {group.lower()}", True)):
            if rows := [_class_row(*each) for each in found if _is_base(*each) is bases]:
                lines += [f"## {title}", "", "| class | does |", "|---|---|", *rows, ""]
    return "\n".join([*lines, *_provider()])


def _is_base(module: str, name: str) -> bool:
    """Return whether a class is for subclasses alone, as its docstring says."""
    return "a base class" in first_line(getattr(import_module(module), name))


def _class_row(module: str, name: str) -> str:
    about = in_cell(first_line(getattr(import_module(module), name)))
    return f"| [`{name}`](api/{page_name(module)}#{name}) | {about} |"


def _provider() -> Iterator[str]:
    info = get_provider_info()
    yield from ("## Links of a task", "", "| class | button |", "|---|---|")
    for path in info["extra-links"]:
        module, _, name = path.rpartition(".")
        yield f"| `{name}` | {getattr(import_module(module), name).name} |"
    (connection,) = info["connection-types"]
    yield from ("", f"## Connection of type `{connection['connection-type']}`", "")
    yield from ("| field | label | meaning |", "|---|---|---|")
    for field, label in connection["ui-field-behaviour"]["relabeling"].items():
        example = connection["ui-field-behaviour"]["placeholders"][field]
        yield f"| `{field}` | {label} | such as {in_cell(example)} |"
    for field, form in connection["conn-fields"].items():
        yield f"| `extra.{field}` | {form['label']} | {in_cell(form['description'])} |"
    schemes = ", ".join(f"`{each}://`" for uri in info["asset-uris"] for each in uri["schemes"])
    yield from ("", f"Assets have URIs of the scheme {schemes}.", "")


def numbers() -> str:
    """Return the page of numbers and codes that a monitoring system collects."""
    lines = ["# Numbers and codes", "", "What `segtable table describe TABLE --json` answers for a"]
    lines += ["new table. Keys are added to, never renamed.", "", "```json", _described_table()]
    lines += ["```", "", "[Operating it](../guides/operating.md#numbers-to-collect) says which of"]
    lines += ["them to watch.", "", "## Codes of findings", ""]
    lines += [
        "The codes of `verify`, `doctor` and `publish --check`. The guide has the way out.",
        "",
    ]
    lines += ["| code | meaning | guide |", "|---|---|---|"]
    known = meanings()
    lines += [f"| `{code}` | {known[code]} |" for code in finding_codes() if code in known]
    return "\n".join([*lines, ""])


def meanings() -> Mapping[str, str]:
    """Return a finding's meaning and the link to its section, by code, as two cells of a table."""
    found: dict[str, str] = {}
    for name, title in _GUIDES.items():
        section = ""
        for line in (ROOT / "docs" / "guides" / name).read_text().splitlines():
            if line.startswith("## "):
                section = heading_id(line.removeprefix("## "))
            cells = re.split(r"(?<!\\)\|", line)[1:-1]
            link = f"[{title}](../guides/{name}#{section})"
            for code in re.findall(r"`([a-z]+(?:-[a-z]+)*)`", cells[0]) if len(cells) > 2 else ():
                found.setdefault(code, f"{_on_site(cells[-2].strip())} | {link}")
    return found


_GUIDES = {"runbook.md": "runbook", "publishing.md": "publishing"}


def _on_site(text: str) -> str:
    """Return a cell of a guide with links that hold below ``reference/``."""
    return re.sub(r"\]\((?=[\w-]+\.md)", "](../guides/", text)


def _described_table() -> str:
    with tempfile.TemporaryDirectory() as folder:
        table = f"{folder}/orders"
        made = ("--schema", "amount double, at timestamp[us, tz=UTC] not null", "--time", "at")
        with patch.dict("os.environ", {"SEGTABLE_ZOOKEEPER": "memory://docs"}):
            runner = CliRunner()
            runner.invoke(app, ["table", "create", table, *made], catch_exceptions=False)
            answer = runner.invoke(app, ["table", "describe", table, "--json"]).stdout
    facts = {key: value for key, value in json.loads(answer).items() if key not in _NOT_NUMBERS}
    return json.dumps(facts, indent=2).replace(table, "./orders")


_NOT_NUMBERS = ("settings", "schema", "id", "created", "changed", "table", "name")


def finding_codes() -> Mapping[str, str]:
    """Return the codes of findings, with the module that finds them."""
    found: dict[str, str] = {}
    for path in sorted((ROOT / PACKAGE).glob("*/**/*.py")):
        if path.parent.name in {"findings", "health", "recovery"}:
            for code in CODE.findall(path.read_text()):
                found |= dict.fromkeys(filter(None, code), f"`{path.parent.name}/{path.stem}`")
    return dict(sorted(found.items()))


def metrics() -> str:
    """Return the page of the metrics that operators send."""
    lines = ["# Metrics", "", cleandoc(_METRICS), ""]
    lines += ["| metric | type | labels | meaning |", "|---|---|---|---|"]
    for metric in METRICS.values():
        labels = ", ".join(f"`{label}`" for label in (metric.of, *metric.labels))
        lines.append(f"| `segtable.{metric.name}` | {metric.type} | {labels} | {metric.meaning} |")
    return "\n".join([*lines, "", cleandoc(_LABELS), ""])


_METRICS = """
The operators send these through Airflow's own metrics, to StatsD, Datadog or OpenTelemetry: switch
them on by Airflow's settings in `[metrics]`, such as `statsd_on = True`, and install Airflow's
extra (`pip install 'apache-airflow[statsd]'`). The prefix of those settings, `airflow` by default,
comes first. A receiver that fails, or is away, fails no task. [Operating
it](../guides/operating.md#metrics) has alerts.

Gauges are sent by each run of a planner (`SegtablePlanOperator`, `SegtableFleetPlanOperator`),
counters and timers by the task that did the work. Only the planner of a fleet sends those of
`fleet` and `objective`, and `plan.waited`. `code` is that of a plan that is
[left](../guides/fleet.md#what-begins-and-what-waits), `aim` the name of an objective.
"""
_LABELS = """
Labels are tags, if the receiver has tags: with `otel_on`, `statsd_datadog_enabled` or
`statsd_influxdb_enabled`. Plain StatsD has none. There the labels end the name, in the order above:
`airflow.segtable.plans.pending.trips`. A label has letters, digits, `-` and `_`; each run of other
characters becomes one `_`, so that the table `s3://lake/trips` is `s3_lake_trips`. `work` is the
`kind` of an [asset event](../guides/airflow.md#dags-that-wait-for-a-table), `kind` the kind of a
plan, and `ended` its end: `completed`, `failed`, `overtaken`, `yielded`, `done_already` or
`running_elsewhere`.

A task that fails after its commit counts the commit, and so may its retry. Take totals from the log
(`segtable table timeline`), rates from the counters.
"""


PAGES = {
    "commands.md": commands,
    "properties.md": properties,
    "error-types.md": errors,
    "airflow-classes.md": airflow,
    "numbers.md": numbers,
    "metrics.md": metrics,
}
