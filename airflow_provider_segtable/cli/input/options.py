"""Options and arguments that several commands share, each declared once.

1. An option is an alias (``Annotated``). Options that recur together are a group: a dataclass.
2. ``@option_groups`` replaces each parameter that is a group by the options of its fields. The
   command gets the dataclass. Typer, and so ``--help``, sees single options in its place, and the
   arguments of groups before those of the command.
3. A field annotated with a function that returns parameters (``index_settings``) stands for all of
   these options: it gets the given values by their names.
4. ``CommonOptions`` open the table and print the answer; ``ZooKeeperOptions`` also end the session.
5. Durations are numbers with a unit: ``90``, ``90s``, ``15m``, ``2h``.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import MISSING, field, fields, is_dataclass
from functools import wraps
from inspect import Parameter, isroutine, signature
from typing import Annotated, Any, get_args, get_type_hints

import typer
from rich.console import RenderableType
from rich.markup import escape
from typer.models import ArgumentInfo

from airflow_provider_segtable.cli.display.output import note, print_json, show
from airflow_provider_segtable.core.dataclass import dataclass
from airflow_provider_segtable.core.errors import InvalidInput
from airflow_provider_segtable.core.facts import Facts, Result
from airflow_provider_segtable.core.indexes.index_kind import ColumnStats
from airflow_provider_segtable.core.indexes.index_state import KINDS, known_settings
from airflow_provider_segtable.core.quantities import parse_duration
from airflow_provider_segtable.core.requests.csv_format import CsvFormat
from airflow_provider_segtable.core.schema import split_names
from airflow_provider_segtable.core.schemes import usual
from airflow_provider_segtable.core.secret import SecretOptions, is_secret_name
from airflow_provider_segtable.core.time import SECOND_US
from airflow_provider_segtable.planning.engine import Engine
from airflow_provider_segtable.storage.table_paths import OPTIONS_VARIABLE, options_from_environment

JSON_WANTED = "segtable.json"


def _remember_json(context: typer.Context, value: bool) -> bool:  # noqa: FBT001 - the shape of a callback
    context.meta[JSON_WANTED] = value
    return value


TableUri = Annotated[
    str,
    typer.Argument(
        metavar="TABLE",
        help=f"The table's root: a path, {usual()}.",
        show_default=False,
    ),
]

AsJson = Annotated[
    bool,
    typer.Option(
        "--json",
        help="Print one JSON document with stable keys, and nothing else, on standard output.",
        callback=_remember_json,
        is_eager=True,
    ),
]

ZooKeeper = Annotated[
    str | None,
    typer.Option(
        "--zookeeper",
        metavar="ADDRESS",
        envvar="SEGTABLE_ZOOKEEPER",
        help=(
            "ZooKeeper's servers, by commas, and its folder: zk1:2181/segtable. By default, the "
            "server that `segtable zookeeper start` started."
        ),
        show_default=False,
    ),
]

StorageOptions = Annotated[
    list[str] | None,
    typer.Option(
        "--storage-option",
        metavar="KEY=VALUE",
        help=(
            "Option of the object store, e.g. region=eu-west-1. Repeatable. Give credentials as "
            "JSON in $SEGTABLE_STORAGE_OPTIONS, or as a file, by the same name with _FILE."
        ),
        show_default=False,
    ),
]

IntervalOption = Annotated[
    str | None,
    typer.Option(help="Only this event time, ISO 8601 start/end.", metavar="START/END"),
]

CommitId = Annotated[
    str | None,
    typer.Option(
        "--commit-id",
        metavar="NAME",
        help="A name for the commit. Repeated under the same name, the command commits "
        "nothing more.",
        show_default=False,
    ),
]

Properties = Annotated[
    list[str] | None,
    typer.Option(
        "--property",
        metavar="KEY=VALUE",
        help="Policy setting, e.g. compaction.min_segments=4. Repeatable.",
        show_default=False,
    ),
]


def pairs(given: Iterable[str] | None, option: str) -> Mapping[str, str]:
    """Parse repeated ``KEY=VALUE`` values.

    Raises:
        InvalidInput: a value has no ``=``; the message names it.
    """
    found: dict[str, str] = {}
    for text in given or ():
        key, equals, value = text.partition("=")
        if not equals or not key.strip():
            raise InvalidInput(f"{option} {text!r} is not KEY=VALUE: write e.g. {option} key=value")
        found[key.strip()] = value.strip()
    return found


def store_options(given: Iterable[str] | None) -> Mapping[str, str]:
    """Return the options of the object store: the environment's, overridden by ``given``.

    Raises:
        InvalidInput: a value is not KEY=VALUE, or the environment variable not a JSON object.
    """
    found = pairs(given, "--storage-option")
    for name in filter(is_secret_name, found):
        note(
            f"[yellow]--storage-option {escape(name)} is seen by all users of this machine: set it "
            f"in ${OPTIONS_VARIABLE}[/]"
        )
    return SecretOptions({**options_from_environment(OPTIONS_VARIABLE), **found})


# Groups of options as dataclasses
def option_groups(command: Callable[..., None]) -> Callable[..., None]:
    """Return a command that takes the fields of its dataclass parameters as options."""
    groups: dict[str, type] = {}
    first: list[Parameter] = []
    others: list[Parameter] = []
    for name, parameter in signature(command, eval_str=True).parameters.items():
        kind = parameter.annotation
        if isinstance(kind, type) and is_dataclass(kind):
            groups[name] = kind
            for each in _options(kind):
                (first if _is_argument(each) else others).append(each)
        else:
            others.append(parameter.replace(kind=Parameter.KEYWORD_ONLY))
    parameters = [*first, *others]

    @wraps(command)
    def run(**given: Any) -> None:
        for name, kind in groups.items():
            given[name] = kind(**_values(kind, given))
        command(**given)

    shown = signature(command).replace(parameters=parameters)
    run.__signature__ = shown  # type: ignore[attr-defined]
    run.__annotations__ = {each.name: each.annotation for each in parameters}
    return run


def _fields(kind: Any) -> Any:
    return fields(kind)


def _options(kind: type) -> list[Parameter]:
    hints, found = get_type_hints(kind, include_extras=True), list[Parameter]()
    for each in _fields(kind):
        default = Parameter.empty if each.default is MISSING else each.default
        found += _generated(hints[each.name]) or [_parameter(each.name, hints[each.name], default)]
    return found


def _parameter(name: str, annotation: Any, default: Any = None) -> Parameter:
    return Parameter(name, Parameter.KEYWORD_ONLY, default=default, annotation=annotation)


def _generated(hint: Any) -> list[Parameter]:
    """Return the options that a field stands for; none if it is an option itself."""
    makers = (each for each in getattr(hint, "__metadata__", ()) if isroutine(each))
    return [parameter for maker in makers for parameter in maker()]


def _values(kind: type, given: dict[str, Any]) -> dict[str, Any]:
    """Take the values of a dataclass's fields out of a command's arguments."""
    hints, found = get_type_hints(kind, include_extras=True), {}
    for each in _fields(kind):
        several = _generated(hints[each.name])
        found[each.name] = (
            {one.name: given.pop(one.name) for one in several} if several else given.pop(each.name)
        )
    return found


def _is_argument(parameter: Parameter) -> bool:
    return any(isinstance(each, ArgumentInfo) for each in get_args(parameter.annotation))


# The options of nearly every command
def open_table(uri: str, storage_options: list[str] | None, zookeeper: str | None = None) -> Any:
    """Open a table; imports ``Table`` only now."""
    from airflow_provider_segtable.table.table import Table

    options = store_options(storage_options)
    return Table.open(uri, zookeeper=zookeeper, storage_options=options)


@contextmanager
def writable_table(
    uri: str, storage_options: list[str] | None, zookeeper: str | None
) -> Iterator[Any]:
    """Open a table with a coordinator, if available, and end its session afterwards."""
    from airflow_provider_segtable.coordination.embedded_zookeeper import find_zookeeper

    table = open_table(uri, storage_options, find_zookeeper(zookeeper))
    try:
        yield table
    finally:
        if table.ports.optional_coordinator is not None:
            table.ports.optional_coordinator.close()


class _Answer:
    """The answer of a command about one table."""

    __slots__ = ()
    table: str
    as_json: bool

    def answer(self, facts: Facts, draw: Callable[[Facts], RenderableType]) -> None:
        """Print facts as JSON, or draw them; the table's address comes first."""
        answer = {"table": self.table, **facts}
        print_json(answer) if self.as_json else show(draw(answer))

    def report(self, result: Result, draw: Callable[[Facts], RenderableType], **more: Any) -> None:
        """Print the facts of a result, with ``more`` that it does not know."""
        self.answer({**result.facts(), **more}, draw)

    def note(self, text: str) -> None:
        """Print a remark (Rich markup), unless the answer is JSON."""
        if not self.as_json:
            note(text)


@dataclass(frozen=True, slots=True, kw_only=True)
class CommonOptions(_Answer):
    """A table, the options of its object store, and the form of the answer."""

    table: TableUri
    storage_options: StorageOptions = None
    as_json: AsJson = False

    def open(self) -> Any:
        """Open the table, without ZooKeeper."""
        return open_table(self.table, self.storage_options)


@dataclass(frozen=True, slots=True, kw_only=True)
class ZooKeeperOptions(_Answer):
    """The common options of a command that may need ZooKeeper."""

    table: TableUri
    zookeeper: ZooKeeper = None
    storage_options: StorageOptions = None
    as_json: AsJson = False

    @contextmanager
    def open(self) -> Iterator[Any]:
        """Open the table with a coordinator, if available, and end its session afterwards."""
        with writable_table(self.table, self.storage_options, self.zookeeper) as table:
            yield table


# Formats of CSV files
CSV = "CSV files"


@dataclass(frozen=True, slots=True, kw_only=True)
class CsvOptions:
    """The form of CSV files, as options."""

    delimiter: Annotated[
        str | None,
        typer.Option(
            help="Separator of fields: one character, or tab. A comma by default, in *.tsv a tab.",
            metavar="CHARACTER",
            show_default=False,
            rich_help_panel=CSV,
        ),
    ] = None
    encoding: Annotated[
        str,
        typer.Option(help="Encoding of the text, e.g. latin-1.", rich_help_panel=CSV),
    ] = "utf-8"
    header: Annotated[
        bool,
        typer.Option(
            "--header/--no-header",
            help="Whether the first line names the columns. If not, they are the table's (or "
            "those of --columns), in this order.",
            rich_help_panel=CSV,
        ),
    ] = True
    null_text: Annotated[
        list[str] | None,
        typer.Option(
            help="A text that stands for null, e.g. NA; repeat. An empty field without quotes "
            "always does.",
            metavar="TEXT",
            show_default=False,
            rich_help_panel=CSV,
        ),
    ] = None

    def form(self) -> CsvFormat:
        """Return the form.

        Raises:
            InvalidInput: the delimiter or the encoding is not one.
        """
        return CsvFormat(
            delimiter=self.delimiter,
            encoding=self.encoding,
            header=self.header,
            nulls=tuple(self.null_text or ()),
        )


# Durations
def seconds_of(text: str, option: str) -> float:
    """Return the seconds of a duration that an option gives.

    Raises:
        InvalidInput: it is not a number with a unit.
    """
    try:
        return parse_duration(text) / SECOND_US
    except InvalidInput as error:
        raise InvalidInput(f"{option} {error}") from None


# Engines: where a command's work is done
EngineOption = Annotated[
    Engine,
    typer.Option(
        help="local: in this process. spark: spread over Spark tasks. auto: local up to 64 MiB of "
        "input, or without Spark; else spark."
    ),
]
MasterOption = Annotated[
    str | None,
    typer.Option(help="Spark master, with --engine spark; this machine by default.", metavar="URL"),
]


def check_spark() -> None:
    """Check that Spark can start here, before a module that needs PySpark is imported.

    Raises:
        JavaMissing, DependencyMissing: the message names the missing part and how to get it.
    """
    from airflow_provider_segtable.spark.driver.session import check_machine

    check_machine()


# Contents of an index
IndexName = Annotated[
    str, typer.Argument(metavar="NAME", help="The index's name.", show_default=False)
]

IndexNames = Annotated[
    list[str] | None,
    typer.Argument(metavar="NAME", help="Indexes; all of them if left out.", show_default=False),
]


# Contents of an index
def index_settings() -> list[Parameter]:
    """Return an option for each setting of a kind of index."""
    return [
        _parameter(
            name,
            Annotated[
                setting.type | None,
                typer.Option(
                    help=f"For {', '.join(kinds)}: {setting.help}; {setting.default} by default."
                ),
            ],
        )
        for name, (setting, kinds) in known_settings().items()
    ]


_KINDS = " ".join(f"[bold]{name}[/] keeps {KINDS[name].keeps}." for name in KINDS)
_WITHOUT_COLUMNS = " and ".join(name for name in KINDS if not KINDS[name].takes_columns)


@dataclass(frozen=True, slots=True, kw_only=True)
class KindOptions:
    """The kind of an index, and its settings."""

    kind: Annotated[str, typer.Option(help=f"Kind of its entries. {_KINDS}", metavar="KIND")] = (
        ColumnStats.name
    )
    columns: Annotated[
        str | None,
        typer.Option(help=f"The columns to index; none for {_WITHOUT_COLUMNS}.", metavar="A,B,..."),
    ] = None
    settings: Annotated[Mapping[str, Any], index_settings] = field(default_factory=dict)

    @property
    def names(self) -> tuple[str, ...]:
        """Return the names of the columns."""
        return tuple(name for name in split_names(self.columns or "") if name)


# Formats to publish in
FormatNames = Annotated[
    list[str] | None,
    typer.Option(
        "--format",
        help="A format, delta or iceberg; repeat. By default the formats that the table's "
        "properties switch on.",
        metavar="NAME",
        show_default=False,
    ),
]

PublishFormats = Annotated[
    list[str] | None,
    typer.Option(
        "--publish",
        help="Publish each version as delta or iceberg, for readers of these formats; repeat.",
        metavar="NAME",
        show_default=False,
    ),
]


def checked_formats(given: list[str] | None) -> tuple[str, ...]:
    """Return the formats that were named, each once.

    Raises:
        InvalidInput: there is no such format.
    """
    if not given:
        return ()
    from airflow_provider_segtable.formats.formats import FORMATS

    for name in given:
        if name not in FORMATS:
            raise InvalidInput(f"{name!r} is not a format: choose among {', '.join(FORMATS)}")
    return tuple(dict.fromkeys(given))


def publish_properties(given: list[str] | None) -> dict[str, str]:
    """Return the properties that switch formats on.

    Raises:
        InvalidInput: there is no such format.
    """
    return {f"publish.{name}": "on" for name in checked_formats(given)}
