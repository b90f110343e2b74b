"""Orders: the columns by which the rows of a segment are sorted.

1. An order is a list of columns, compared one after another (``carrier,origin``), or the *z-order*
   of two to four columns, which gives them equal weight (``zorder(carrier,origin)``). A name with a
   comma or parentheses is in double quotes (``column_names``).
2. Sorting is ascending, nulls first (Spark's default), NaN after all other numbers, text by its
   UTF-8 bytes. Rows with equal columns are sorted by event time.
3. The empty order sorts by event time alone.
4. A segment's ``clustering`` holds the text form, so equal orders have equal texts.

Source of the idea: Hilbert/z-order clustering as in Hudi and Delta Lake; Orenstein & Merrett, "A
class of data structures for associative searching" (1984).
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from airflow_provider_segtable.core.counted import counted
from airflow_provider_segtable.core.errors import InvalidInput
from airflow_provider_segtable.core.tables.column_names import joined_names, split_names

Curve = Literal["lexicographic", "zorder"]
ZORDER_COLUMNS = range(2, 5)
"""The number of columns of a z-order; with more, row ranges narrow down none of them."""

_NAMES = r'(?:"(?:[^"]|"")*"|[^()])*'
_TEXT = re.compile(rf"\s*(?:(?P<curve>zorder)\s*\((?P<inside>{_NAMES})\)|(?P<plain>{_NAMES}))\s*")


@dataclass(frozen=True, slots=True, kw_only=True)
class Order:
    """The order of a segment's rows; ``columns`` may be empty (event time alone)."""

    columns: tuple[str, ...] = ()
    curve: Curve = "lexicographic"

    def __post_init__(self) -> None:
        """Refuse column names without a text form, repeated columns and invalid z-orders."""
        for name in self.columns:
            if not name or name != name.strip():
                raise InvalidInput(
                    f"{name!r} in an order is not a column name: write columns with commas, "
                    "e.g. carrier,origin or zorder(carrier,origin)"
                )
        twice = sorted({name for name in self.columns if self.columns.count(name) > 1})
        if twice:
            raise InvalidInput(f"order {self} names {', '.join(twice)} twice: name columns once")
        if self.curve == "zorder" and len(self.columns) not in ZORDER_COLUMNS:
            raise InvalidInput(
                f"{self} is over {counted(len(self.columns), 'column')}: a z-order takes "
                f"{ZORDER_COLUMNS.start} to {ZORDER_COLUMNS.stop - 1}; "
                "for one column write just its name"
            )

    def __str__(self) -> str:
        """Return the text form, which ``parse`` reads."""
        names = joined_names(self.columns)
        return f"zorder({names})" if self.curve == "zorder" else names

    @staticmethod
    def given(clustering: object) -> "Order":
        """Return the order that a user gives as text, or as a list of columns.

        Raises:
            InvalidInput: with the value, if it is neither.
        """
        if isinstance(clustering, str):
            return Order.parse(clustering)
        if isinstance(clustering, Sequence) and all(isinstance(name, str) for name in clustering):
            return Order(columns=tuple(clustering))
        raise InvalidInput(
            f"clustering {clustering!r} is not an order: write columns as text or as a list, "
            "e.g. 'carrier,origin', ['carrier', 'origin'] or 'zorder(carrier,origin)'"
        )

    @staticmethod
    def parse(text: str) -> "Order":
        """Parse ``a,b`` or ``zorder(a,b)``; the empty text is the order by event time.

        Raises:
            InvalidInput: with the text, if it has another form.
        """
        match = _TEXT.fullmatch(text)
        if not match:
            raise InvalidInput(
                f"{text!r} is not an order: write e.g. carrier,origin or zorder(carrier,origin)"
            )
        inside = match["inside"] if match["curve"] else match["plain"]
        if not match["curve"] and not inside.strip():
            return Order()
        try:
            return Order(
                columns=split_names(inside),
                curve="zorder" if match["curve"] else "lexicographic",
            )
        except InvalidInput as error:
            raise InvalidInput(f"{text!r} is not an order: {error}") from None
