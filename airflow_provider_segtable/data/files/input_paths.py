"""Names of a user's files: paths, URIs of object stores, and patterns of either.

1. ``*``, ``?`` and ``[...]`` match within one name, ``**`` any number of folders. The name of a
   file that is there is no pattern.
2. What only Spark reads is told apart by ``only_spark_reads``: folders, ``{a,b}``, other formats,
   schemes without an adapter here, and stores that this process cannot reach.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from glob import glob
from urllib.parse import quote as percent_quoted
from urllib.parse import unquote, urlsplit

from pyarrow import fs

from airflow_provider_segtable.core.errors import InvalidInput, StorageError
from airflow_provider_segtable.core.requests.csv_format import CsvFormat
from airflow_provider_segtable.data.files.filesystems import STORES, object_store
from airflow_provider_segtable.data.files.input_files import FORMATS, InputFile, reaching

_MAGIC = re.compile(r"[*?\[]")
_WILD = re.compile(r"(\*\*/|\*|\?|\[[^\]/]+\])")
_AS_REGEX = {"**/": "(?:[^/]+/)*", "*": "[^/]*", "?": "[^/]"}


def expanded(name: str, options: Mapping[str, str]) -> list[str]:
    """Return the files of a pattern, sorted; any other name, or one without files, itself."""
    if name.startswith("file://"):
        name = unquote(urlsplit(name).path)
    if not _MAGIC.search(name) or InputFile(name, options=options).is_file():
        return [name]
    found = _listed(name, options) if "://" in name else glob(name, recursive=True)  # noqa: PTH207
    return sorted(found) or [name]


def found_files(
    name: str, kind: str | None, options: Mapping[str, str], csv: CsvFormat | None = None
) -> list[InputFile]:
    """Return the files of a name or pattern that are there, sorted.

    Raises:
        InvalidInput: the URI has an unknown scheme.
        StorageError: the store cannot be reached.
    """
    form = csv or CsvFormat()
    named = (InputFile(each, kind, options, form) for each in expanded(name, options))
    return [file for file in named if file.is_file()]


def only_spark_reads(names: Sequence[str], kind: str | None, options: Mapping[str, str]) -> str:
    """Return why only Spark can read files; empty if this process can, or they are not there."""
    return next((why for name in names if (why := _why(name, kind, options))), "")


def _why(name: str, kind: str | None, options: Mapping[str, str]) -> str:
    scheme = name.partition("://")[0] if "://" in name else "file"
    if scheme not in ("file", *STORES):
        return f"{name} has a scheme that is read by Spark only"
    try:
        if InputFile(name, options=options).is_folder():
            return f"{name} is a folder"
        named = expanded(name, options)
    except (StorageError, InvalidInput) as error:
        return f"this process cannot read it: {error}"
    if "{" in name and not any(InputFile(each, options=options).is_file() for each in named):
        return f"{name} is a pattern of Spark's"
    if all(readable(each, kind) for each in named):
        return ""
    return f"{name} is not one of {', '.join(FORMATS)}"


def readable(name: str, kind: str | None) -> bool:
    """Return whether a name, or the given format, tells a format that this process reads."""
    try:
        return bool(InputFile(name, kind).format)
    except InvalidInput:
        return False


def _listed(pattern: str, options: Mapping[str, str]) -> Iterator[str]:
    """Yield the objects that match a pattern; listed below its part without wildcards."""
    start = _MAGIC.search(pattern)
    base = pattern[: start.start() if start else None].rpartition("/")[0]
    rest = pattern[len(base) + 1 :]
    if base.endswith(":/"):  # the bucket itself is a pattern
        return
    system, folder = object_store(base, options)
    wanted = _regex(rest)
    selector = fs.FileSelector(folder, recursive="/" in rest, allow_not_found=True)
    with reaching(pattern):
        there = system.get_file_info(selector)
    for each in there:
        path = each.path[len(folder) + 1 :]
        if each.type == fs.FileType.File and wanted.fullmatch(path):
            yield f"{base}/{percent_quoted(path, safe='/=:+@,')}"


def _regex(pattern: str) -> re.Pattern[str]:
    parts = (
        _AS_REGEX.get(part) or part.replace("[!", "[^")
        if _WILD.fullmatch(part)
        else re.escape(unquote(part))
        for part in _WILD.split(pattern)
    )
    return re.compile("".join(parts))
