"""Tags: versions that are kept by name.

1. A tag's checkpoint is written first, so that the version can be opened after its events have
   expired; then ``Tagged`` is committed. Without the event the file has no meaning.
2. The event is admitted only while its version is kept. So an earlier cleaner cannot have removed
   files that the tag needs, and a later cleaner reads the tag from the log.
3. The file of a version that is neither kept nor tagged is an orphan: no later event can name it.
"""

from airflow_provider_segtable.core.errors import InvalidInput, InvalidName
from airflow_provider_segtable.core.log.events import Tagged, Untagged
from airflow_provider_segtable.core.log.state import State
from airflow_provider_segtable.core.paths import is_name
from airflow_provider_segtable.table.context import TableContext
from airflow_provider_segtable.table.log.checkpoint import write_checkpoint
from airflow_provider_segtable.table.log.committer import Change, commit_or_raise
from airflow_provider_segtable.table.log.event_log import tag_path


def put_tag(ports: TableContext, name: str, version: int | None = None) -> int:
    """Tag a version, the newest by default; see ``Table.tag``."""
    if not is_name(name):
        raise InvalidName(
            f"{name!r} is not a tag name: use up to 100 letters, digits, '.', '_' and '-', "
            "beginning with a letter or digit"
        )
    log = ports.log
    newest = log.load()
    if name in newest.tags:
        raise InvalidInput(
            f"tag {name!r} is version {newest.tags[name]} already: choose another name, or delete "
            "that tag first"
        )
    state = newest if version is None else log.at(version)
    ports.storage.replace(tag_path(name, state.n), write_checkpoint(state))
    change = Change(action=Tagged(name=name, n=state.n), commit_id=ports.randomness.token())
    commit_or_raise(ports, newest, change)
    return state.n


def remove_tag(ports: TableContext, name: str) -> None:
    """Remove a tag; see ``Table.untag``."""
    newest = ports.log.load()
    known_tag(newest, name)
    change = Change(action=Untagged(name=name), commit_id=ports.randomness.token())
    commit_or_raise(ports, newest, change)


def known_tag(state: State, name: str) -> int:
    """Return the version that a tag names.

    Raises:
        InvalidInput: the tag does not exist; the message lists the existing tags.
    """
    if name not in state.tags:
        known = ", ".join(sorted(state.tags))
        there = f"the table has {known}" if known else "the table has no tags"
        raise InvalidInput(f"there is no tag {name!r}: {there}")
    return state.tags[name]
