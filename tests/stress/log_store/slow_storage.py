"""A storage that takes its time while a file says so."""

import time
from pathlib import Path
from typing import Any

LAG_S = 0.5


class Slow:
    """A storage, or data files, whose methods come ``LAG_S`` late while ``sign`` exists."""

    def __init__(self, target: object, sign: Path) -> None:
        self._target, self._sign = target, sign

    def __getattr__(self, name: str) -> Any:
        """Return the target's own, after a while."""
        if self._sign.exists():
            time.sleep(LAG_S)
        return getattr(self._target, name)
