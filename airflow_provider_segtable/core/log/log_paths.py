"""The paths of a table's log: events, checkpoints, markers of expiry, and tags.

A name has the number of its event in 20 digits, so names are in the order of events.
"""

TIMELINE = "_segtable/timeline"
CHECKPOINTS = "_segtable/checkpoints"
LAST = f"{CHECKPOINTS}/_last"
EXPIRED = "_segtable/expired"
TAGS = "_segtable/tags"


def event_path(n: int) -> str:
    """Return the path of event ``n``."""
    return f"{TIMELINE}/{n:020d}.json"


def checkpoint_path(n: int) -> str:
    """Return the path of the checkpoint after event ``n``."""
    return f"{CHECKPOINTS}/{n:020d}.parquet"


def expired_path(n: int) -> str:
    """Return the path of the marker that allows deletion of events below ``n``."""
    return f"{EXPIRED}/{n:020d}"


def tag_path(name: str, n: int) -> str:
    """Return the path of a tagged version's own checkpoint."""
    return f"{TAGS}/{name}-{n}.parquet"


def number(path: str) -> int | None:
    """Return the number in the name of an event, a checkpoint or a marker; None for others."""
    digits = path.rsplit("/", 1)[-1].partition(".")[0]
    return int(digits) if len(digits) == len(f"{0:020d}") and digits.isdigit() else None
