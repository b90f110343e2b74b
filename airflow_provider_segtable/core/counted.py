"""Numbers and sizes in messages: ``1 row``, ``2,000 rows``, ``row 3 (from 0)``, ``1.5 MiB``."""

MIB = 1 << 20


def counted(count: int, noun: str) -> str:
    """Return a count with its noun, in the plural unless it is one; the plural ends in ``s``."""
    return f"{count:,} {noun}{'' if count == 1 else 's'}"


def numbered_row(row: int) -> str:
    """Return the name of a row, ``row 3 (from 0)``: the first row of a file or of rows is row 0."""
    return f"row {row:,} (from 0)"


def describe_size(size: float) -> str:
    """Format a number of bytes, e.g. ``1.5 MiB``."""
    for unit in ("B", "KiB", "MiB", "GiB"):
        if size < 1024:
            return f"{size:.0f} {unit}" if unit == "B" else f"{size:.1f} {unit}"
        size /= 1024
    return f"{size:.1f} TiB"
