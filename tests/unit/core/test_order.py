"""Orders: what can be written, and what is refused."""

import pytest

from airflow_provider_segtable.core.errors import InvalidInput
from airflow_provider_segtable.core.schema import Order


@pytest.mark.parametrize(
    ("text", "columns", "curve", "shown"),
    [
        ("", (), "lexicographic", ""),
        ("carrier", ("carrier",), "lexicographic", "carrier"),
        (" carrier , origin ", ("carrier", "origin"), "lexicographic", "carrier,origin"),
        ("zorder(a, b,c)", ("a", "b", "c"), "zorder", "zorder(a,b,c)"),
        (" zorder ( a,b ) ", ("a", "b"), "zorder", "zorder(a,b)"),
        ("zorder", ("zorder",), "lexicographic", "zorder"),
    ],
)
def test_an_order_is_read_and_shown(
    text: str, columns: tuple[str, ...], curve: str, shown: str
) -> None:
    """Columns and curve come from the text, and one order has one text."""
    order = Order.parse(text)
    assert (order.columns, order.curve, str(order)) == (columns, curve, shown)


@pytest.mark.parametrize(
    "text",
    [
        ",",
        "a,,b",
        "a,a",
        "a)",
        "zorder(a)",
        "zorder()",
        "zorder(a,b,c,d,e)",
        "zorder(a,b",
        "hilbert(a,b)",
        "zorder((a,b))",
    ],
)
def test_nonsense_is_refused_with_its_text(text: str) -> None:
    """Whatever is no order is named in the error."""
    with pytest.raises(InvalidInput) as raised:
        Order.parse(text)
    assert repr(text) in str(raised.value)
