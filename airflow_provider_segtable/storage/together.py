"""Send requests that do not depend on each other at the same time.

1. Where a request is a round trip, the actions run in threads of their own; otherwise one after
   another, because a thread costs more than a look at a local file.
2. All of them end before the call does. The error of the first one, in their order, is raised.
3. Requests whose order decides what is true are never given to one call.
"""

from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar

from airflow_provider_segtable.core.errors import NotFound
from airflow_provider_segtable.ports.storage import Storage

T = TypeVar("T")

AT_ONCE = 8
"""The most requests at the same time."""


def together(storage: Storage, *acts: Callable[[], Any]) -> list[Any]:
    """Return the results of actions, in their order."""
    if not storage.remote or min(AT_ONCE, len(acts)) <= 1:
        return [act() for act in acts]
    with ThreadPoolExecutor(min(AT_ONCE, len(acts)), "segtable-together") as pool:
        begun = [pool.submit(act) for act in acts]
    return [each.result() for each in begun]


def for_each(storage: Storage, act: Callable[[T], Any], items: Iterable[T]) -> list[Any]:
    """Return the results of an action for all items, in their order."""
    return together(storage, *(lambda item=item: act(item) for item in items))


def found_together(storage: Storage, paths: Sequence[str]) -> dict[str, bytes]:
    """Return the bytes of objects, without those that do not exist."""

    def read(path: str) -> bytes | None:
        try:
            return storage.read(path)
        except NotFound:
            return None

    read_ = for_each(storage, read, paths)
    return {path: data for path, data in zip(paths, read_, strict=True) if data is not None}
