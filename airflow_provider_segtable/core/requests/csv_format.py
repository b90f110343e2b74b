"""How CSV files are written: the separator of fields, and the texts that are null.

1. One value for all ways in: command line, operators and Python, in this process and on Spark.
2. An empty field without quotes is null; ``""`` is an empty text. Every other text is a text, also
   ``NA``, ``null`` and ``nan``, unless it is named as null: then it is, with quotes and without.
3. A field that is not null is a value of its column's type, or refuses the file.
"""

import codecs
from collections.abc import Sequence
from pathlib import PurePosixPath

from airflow_provider_segtable.core.dataclass import dataclass
from airflow_provider_segtable.core.errors import InvalidInput

_NAMED = {"\\t": "\t", "tab": "\t", "comma": ",", "semicolon": ";", "pipe": "|", "space": " "}
_BY_SUFFIX = {".tsv": "\t"}
LIKELY = (";", "\t", "|", ",")
"""Delimiters that files have, the likeliest first."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CsvFormat:
    """The form of CSV files.

    Attributes:
        delimiter: one character, or ``tab``; by default a comma, in ``*.tsv`` a tab.
        encoding: the encoding of the text, as Python names it.
        header: whether the first line has the names of the columns; if not, they are the table's
            columns, in their order.
        nulls: texts that are null, besides an empty field without quotes.
    """

    delimiter: str | None = None
    encoding: str = "utf-8"
    header: bool = True
    nulls: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        """Refuse a delimiter of several characters, and an unknown encoding."""
        if self.delimiter is not None:
            known = _NAMED.get(self.delimiter, self.delimiter)
            if len(known) != 1 or known in '"\r\n' or not known.isascii():
                raise InvalidInput(
                    f"delimiter {self.delimiter!r} is not one ASCII character that can separate "
                    "fields: give e.g. ';', '|' or tab"
                )
            object.__setattr__(self, "delimiter", known)
        try:
            codecs.lookup(self.encoding)
        except LookupError:
            raise InvalidInput(
                f"encoding {self.encoding!r} is unknown: give e.g. utf-8, latin-1 or utf-16"
            ) from None

    def separator(self, name: str) -> str:
        """Return the separator of fields in a file of this name."""
        suffix = PurePosixPath(name.removesuffix(".gz")).suffix.lower()
        return self.delimiter or _BY_SUFFIX.get(suffix, ",")


def check_separated(columns: Sequence[str], known: Sequence[str], place: str, used: str) -> None:
    """Refuse a header that another delimiter separates into columns.

    Args:
        columns: the names in the header, as separated by ``used``.
        known: the columns to find.
        place: the file.
        used: the delimiter.

    Raises:
        InvalidInput: the message names the delimiter.
    """
    if len(columns) != 1 or columns[0] in known:
        return
    for likely in LIKELY:
        parts = columns[0].split(likely)
        if likely != used and len(parts) > 1:
            shown = "tab" if likely == "\t" else likely
            raise InvalidInput(
                f"{place} has one column {columns[0]!r} if {used!r} separates fields: its "
                f"delimiter seems to be {likely!r}: give it (--delimiter {shown!r}, "
                f"delimiter={likely!r})"
            )
