"""The options that name formats to publish in."""

from typing import Annotated

import typer

from airflow_provider_segtable.core.errors import InvalidInput

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
