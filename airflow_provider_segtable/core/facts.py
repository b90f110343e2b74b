"""Facts: a result as plain JSON values under stable keys.

1. A result answers ``facts()`` once, where its type is defined. The command line prints them with
   ``--json`` and draws them as tables; operators return them, and Spark applications report them.
2. The caller adds the values that a result does not know: the table's address, the arguments.
3. Times and intervals are ISO 8601. Sizes are in bytes, under ``bytes``. An unknown value is null.
4. Scripts may rely on the keys: new ones are added, none is renamed.
"""

from collections.abc import Mapping
from typing import Any, Protocol

Facts = Mapping[str, Any]


class Result(Protocol):
    """The result of a service, of a change, or of a check."""

    def facts(self) -> Facts:
        """Return the result as plain JSON values."""
