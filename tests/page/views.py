"""Where the views of the page are."""

from urllib.parse import quote

from tests.page.lake import INVOICES, ORDERS

OF_TABLE = ("overview", "map", "timeline", "plans", "indexes", "published", "locks", "runs")


def table_hash(table: str, view: str = "overview") -> str:
    """Return the part of an address that names a view of a table."""
    return f"#/table/{quote(table, safe='')}/{view}"


HASHES = {
    "fleet": "#/",
    "runs-of-fleet": "#/runs",
    **{view: table_hash(ORDERS, view) for view in OF_TABLE},
    "logstore": table_hash(INVOICES, "logstore"),
    "keyed": table_hash(INVOICES),
    "explain": f"{table_hash(ORDERS, 'indexes')}?where={quote('customer = 77')}",
}
