"""Mask credentials in rendered fields, because Airflow stores and shows these."""

from collections.abc import Mapping
from typing import Any

from airflow.providers.common.compat.sdk import BaseOperator, Context

from airflow_provider_segtable.core.secret import redacted
from airflow_provider_segtable.hooks.segtable import mask_credentials


class TableOperator(BaseOperator):
    """An operator over one ``table``, whose rendered fields show no credentials."""

    table: str

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
