"""How many examples a property draws: as many as it names, or many times that to look further.

``HYPOTHESIS_PROFILE`` chooses; ``conftest.py`` registers the profiles by these factors.
"""

import os
from collections.abc import Mapping

from hypothesis import settings

FACTORS: Mapping[str, int] = {"repeat": 1, "explore": 20}
PROFILE = os.environ.get("HYPOTHESIS_PROFILE", "repeat")
DEFAULT = 100
"""Examples of a property that names no number; Hypothesis's own default."""


def examples(count: int) -> settings:
    """Return settings for ``count`` examples, times the factor of the profile."""
    return settings(max_examples=count * FACTORS[PROFILE])
