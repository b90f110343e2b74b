"""Read each object of the log once for all actors of a world, because what it says is immutable.

1. Every actor still reads the bytes through its own faulty storage. Only what follows is shared:
   decoding an event or a checkpoint, and applying an event to a state.
2. Names are compared by value, all else by identity: a result is kept with what it was made of, so
   no identity is used twice. An error is not kept.
3. The ledger decodes and folds by itself, so its states are never those that the actors see.
"""

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any
from unittest.mock import patch

from airflow_provider_segtable.core.log import fold, joint_file
from airflow_provider_segtable.services import cleaning
from airflow_provider_segtable.table.log import checkpoint, event_log

_SHARED: tuple[tuple[Callable[..., Any], tuple[Any, ...]], ...] = (
    (event_log.decode_file, (event_log,)),
    (checkpoint.read_checkpoint, (checkpoint,)),
    (fold.apply, (fold, event_log, joint_file, cleaning)),
)


@contextmanager
def shared_reading() -> Iterator[None]:
    """Share readings during a block."""
    with ExitStack() as stack:
        for function, modules in _SHARED:
            shared = _once(function)
            for module in modules:
                stack.enter_context(patch.object(module, function.__name__, shared))
        yield


def _once(function: Callable[..., Any]) -> Callable[..., Any]:
    known: dict[tuple[str | int, ...], tuple[tuple[Any, ...], Any]] = {}

    def shared(*given: Any) -> Any:
        key = tuple(each if isinstance(each, str) else id(each) for each in given)
        if key not in known:
            known[key] = given, function(*given)
        return known[key][1]

    return shared
