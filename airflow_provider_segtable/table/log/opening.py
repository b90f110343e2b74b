"""What a table is opened with: a checkpoint, and the id spaces in it."""

from collections.abc import Mapping

from airflow_provider_segtable.core.log.state import IdSpace, SpaceKey


class Opening:
    """The opening of a checkpoint: all that is read from it refers to one."""


class OpenedSpaces(Mapping[SpaceKey, IdSpace]):
    """The id spaces that a table is opened with."""

    opening: Opening
