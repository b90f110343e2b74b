"""Numbers of things in messages: ``1 row``, ``2,000 rows``."""


def counted(count: int, noun: str) -> str:
    """Return a count with its noun, in the plural unless it is one; the plural ends in ``s``."""
    return f"{count:,} {noun}{'' if count == 1 else 's'}"
