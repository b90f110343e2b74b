"""How many examples a property draws: as many as it names, or many times that to look further.

``HYPOTHESIS_PROFILE`` chooses; ``conftest.py`` registers the profiles by these factors. ``repeat``,
which ``make test`` uses, draws the same examples in each run, so it needs fewer than are named:
a third of them. ``make test-long`` draws as many as are named (``whole``).
"""

import math
import os
from collections.abc import Mapping

from hypothesis import settings

FACTORS: Mapping[str, float] = {"repeat": 1 / 3, "whole": 1, "explore": 20}
PROFILE = os.environ.get("HYPOTHESIS_PROFILE", "repeat")
DEFAULT = 100
"""Examples of a property that names no number; Hypothesis's own default."""


def examples(count: int) -> settings:
    """Return settings for ``count`` examples, times the factor of the profile."""
    return settings(max_examples=drawn(count))


def drawn(count: int) -> int:
    """Return how many examples a property draws that names ``count``."""
    return math.ceil(count * FACTORS[PROFILE])
