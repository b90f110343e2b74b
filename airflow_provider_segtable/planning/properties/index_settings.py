"""The index policy: which indexes a table is to have, and when they are built.

1. It is read from the table's properties (``index.*``). A key that is no setting names an index,
   and its value says what it keeps::

       index.by_tail   column_stats(carrier, tailnum)
       index.tails     bloom_filter(tailnum; rate=0.001)
       index.files     files
       index.keys      record_index

2. Anything else is refused by name, because a typo would silently leave an index out.
3. The planner requests an index once the table is large enough. Then writers feed it; so the
   earlier it is requested, the less there is to build.
"""

import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass

from airflow_provider_segtable.core.errors import InvalidInput
from airflow_provider_segtable.core.indexes.index_kind import IndexKind
from airflow_provider_segtable.core.indexes.index_state import KINDS, chosen_kind
from airflow_provider_segtable.core.log.families.table_events import TableCreated
from airflow_provider_segtable.core.paths import is_name
from airflow_provider_segtable.core.schema import split_names
from airflow_provider_segtable.planning.properties.property_values import names_of, values_of

PREFIX = "index"

_RATE = r"(?:;\s*rate\s*=(?P<rate>[^();]*))?"
_FORM = re.compile(rf"(?P<kind>\w+)\s*(?:\((?P<columns>[^();]*){_RATE}\))?")
_EXAMPLES = "files, column_stats(a, b) or bloom_filter(a; rate=0.01)"


@dataclass(frozen=True, slots=True, kw_only=True)
class IndexSettings:
    """When indexes of the policy are built; defaults in parentheses.

    Attributes:
        min_files: request an index once the table has this many files (0) ...
        min_bytes: ... and this many bytes (0).
        timeout_minutes: a run of an index begins no further piece after this time, and pauses (60).
    """

    min_files: int = 0
    min_bytes: int = 0
    timeout_minutes: float = 60.0

    def __post_init__(self) -> None:
        """Refuse invalid values."""
        for name, value in asdict(self).items():
            if not value >= 0:
                raise InvalidInput(f"{PREFIX}.{name} = {value} is too low: at least 0")

    @staticmethod
    def read(properties: Mapping[str, str]) -> "IndexSettings":
        """Return the settings in a table's properties."""
        own = {key: text for key, text in properties.items() if key in PROPERTIES}
        return IndexSettings(**values_of(IndexSettings, PREFIX, own))  # type: ignore[arg-type]


PROPERTIES = names_of(IndexSettings, PREFIX)


@dataclass(frozen=True, slots=True, kw_only=True)
class WishedIndex:
    """An index that the policy asks for; columns are those of the table at the time of a plan."""

    name: str
    text: str
    kind: str
    columns: tuple[str, ...] = ()
    rate: float | None = None

    @property
    def key(self) -> str:
        """Return the property."""
        return f"{PREFIX}.{self.name}"

    def bound(self, table: TableCreated) -> IndexKind:
        """Return what the index keeps of a table.

        Raises:
            InvalidInput: the table cannot be indexed so; the message names the property.
        """
        try:
            return chosen_kind(self.kind, table, columns=self.columns, rate=self.rate)
        except InvalidInput as error:
            raise InvalidInput(f"property {self.key} = {self.text!r}: {error}") from None


def wished_indexes(properties: Mapping[str, str]) -> tuple[WishedIndex, ...]:
    """Return the indexes of a table's properties, in their order.

    Raises:
        InvalidInput: a value names no index; the message names the property and shows the form.
    """
    return tuple(_wish(key, text) for key, text in properties.items() if names_index(key))


def names_index(key: str) -> bool:
    """Return whether a property names an index of the policy."""
    return key.startswith(f"{PREFIX}.") and key not in PROPERTIES


def check_index_policy(table: TableCreated) -> None:
    """Refuse an index policy that is malformed, or does not fit the table.

    Raises:
        InvalidInput: with the property, its value and the way out.
    """
    IndexSettings.read(table.properties)
    for wish in wished_indexes(table.properties):
        wish.bound(table)


def _wish(key: str, text: str) -> WishedIndex:
    name, found = key.removeprefix(f"{PREFIX}."), _FORM.fullmatch(text.strip())
    if not is_name(name):
        raise InvalidInput(
            f"property {key!r} names no index: use letters, digits, '.', '_' and '-' after "
            f"'{PREFIX}.', at most 100"
        )
    if found is None or found["kind"] not in KINDS:
        raise InvalidInput(
            f"property {key} = {text!r} is not an index: write e.g. {_EXAMPLES}; settings are "
            f"{', '.join(PROPERTIES)}"
        )
    columns = split_names(found["columns"] or "")
    return WishedIndex(
        name=name,
        text=text,
        kind=found["kind"],
        columns=() if columns == ("",) else columns,
        rate=None if found["rate"] is None else _rate(key, found["rate"]),
    )


def _rate(key: str, text: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise InvalidInput(f"property {key}: rate {text.strip()!r} is not a number") from None
