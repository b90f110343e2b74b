"""The base of operators over a table: masked fields, and errors that no retry can mend.

1. Credentials in rendered fields are masked, because Airflow stores and shows these.
2. A refused value, a missing table or a missing connection fails the task at once: a retry would
   meet the same.
"""

from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from airflow.providers.common.compat.sdk import (
    AirflowFailException,
    AirflowNotFoundException,
    BaseOperator,
    BaseOperatorLink,
    Context,
)

from airflow_provider_segtable.core.errors import InvalidInput, NotATable
from airflow_provider_segtable.core.secret import redacted
from airflow_provider_segtable.hooks.segtable import mask_credentials
from airflow_provider_segtable.operators.runs.links import SegtableTableLink


class TableOperator(BaseOperator):
    """An operator over one ``table``, whose rendered fields show no credentials."""

    table: str
    operator_extra_links: Collection[BaseOperatorLink] = (SegtableTableLink(),)

    def render_template_fields(self, context: Context, jinja_env: Any = None) -> None:
        """Render the fields, and mask credentials before Airflow stores them."""
        super().render_template_fields(context, jinja_env)
        for options in self.hidden_options():
            mask_credentials(options)
        if redacted(str(self.table)) != self.table:  # refused later, but stored before
            mask_credentials({"credentials": self.table})

    def hidden_options(self) -> tuple[Mapping[str, Any] | None, ...]:
        """Return the fields whose values may be credentials, by name."""
        return ()


@contextmanager
def refused_at_once(what: str) -> Iterator[None]:
    """Fail the task without a retry if a retry would meet the same error.

    Args:
        what: the work, for the message.

    Raises:
        AirflowFailException: a value is refused, or the table or a connection does not exist.
    """
    try:
        yield
    except (InvalidInput, NotATable, AirflowNotFoundException) as error:
        raise AirflowFailException(redacted(f"{what}: {error}")) from error
