"""Planted errors of the log store: what has to find them."""

from collections.abc import Callable, Iterable

import pytest


def check_seen(play: Callable[[int], object], seeds: Iterable[int], message: str) -> None:
    """Check that one of some seeds ends with an assertion that says a message."""
    found = []
    for seed in seeds:
        try:
            play(seed)
        except AssertionError as error:
            found.append(str(error))
            if message in found[-1]:
                return
    pytest.fail(f"{message!r} is not in {found}")
