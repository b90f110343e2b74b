"""Options and arguments that several commands share."""

from collections.abc import Iterable, Mapping
from typing import Annotated

import typer
from rich.markup import escape

from airflow_provider_segtable.cli.display.output import note
from airflow_provider_segtable.core.errors import InvalidInput
from airflow_provider_segtable.core.secret import SecretOptions, is_secret_name
from airflow_provider_segtable.storage.table_paths import OPTIONS_VARIABLE, options_from_environment

JSON_WANTED = "segtable.json"


def _remember_json(context: typer.Context, value: bool) -> bool:  # noqa: FBT001 - the shape of a callback
    context.meta[JSON_WANTED] = value
    return value


TableUri = Annotated[
    str,
    typer.Argument(
        metavar="TABLE",
        help="The table's root: a path, file://, s3://, gs:// or az://.",
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

CommitId = Annotated[
    str | None,
    typer.Option(
        "--commit-id",
        metavar="NAME",
        help="A name for what this command commits. Repeated under the same name, it commits "
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
