"""Changes of columns of a primary-key table: which are possible, and what becomes of the rules.

1. The columns that decide where a record is kept and which record wins stay as they are: the key,
   the ordering column, the ordering columns of groups, the event time. All others may be added,
   renamed, dropped, widened and reordered.
2. A column that is added joins the group that its author names. Otherwise it follows the default
   rule of the engine: a part of the row (``latest``), a register of its own (``partial_update``).
3. A column of a group has no default: a group is set as a whole, nulls included, so a null there
   says that a record set it to null.
4. A register keeps its hidden columns under the id that they have, whatever it is called.
"""

from collections.abc import Mapping, Sequence

from airflow_provider_segtable.core.errors import InvalidInput
from airflow_provider_segtable.core.tables.evolution import (
    AddColumn,
    ColumnChange,
    DropColumn,
    MakeNullable,
    RenameColumn,
    WidenColumn,
)
from airflow_provider_segtable.core.tables.field_ids import hidden_ids, id_beside
from airflow_provider_segtable.core.tables.keyed.merge_rules import (
    AT_OF,
    ROOT_OF,
    ColumnGroup,
    MergeRules,
)
from airflow_provider_segtable.core.tables.schema import Column, Schema

_OWNED = (ROOT_OF, AT_OF)


def check_changes(rules: MergeRules, changes: Sequence[ColumnChange], table: str) -> None:
    """Refuse changes of columns that decide which record wins, and groups that do not exist.

    Raises:
        InvalidInput: with the column, its role and the way out.
    """
    for change in changes:
        if isinstance(change, AddColumn):
            _check_addition(change, rules, table)
            continue
        name, done = _touched(change)
        role = _role(rules, name)
        if role:
            raise InvalidInput(
                f"column {name!r} of {table} cannot be {done}: it is {role}, by which files of "
                "before were written; create a table with the columns wanted, and upsert the rows "
                "there"
            )


def _role(rules: MergeRules, name: str) -> str:
    """Return the role of a column that stays as it is; empty for any other."""
    if name in rules.key:
        return "part of the primary key, which decides where a record is kept"
    if name and name == rules.ordering:
        return "the ordering column, which decides which record wins"
    if name in (group.ordering for group in rules.groups):
        return "the ordering column of a group, which decides which record sets the group"
    return ""


def _touched(change: ColumnChange) -> tuple[str, str]:
    """Return the column that a change touches, and what is done with it; empty if it is none."""
    match change:
        case DropColumn(name=name):
            return name, "dropped"
        case RenameColumn(name=name):
            return name, "renamed"
        case WidenColumn(name=name):
            return name, "changed in type"
        case MakeNullable(name=name):
            return name, "made nullable"
        case _:
            return "", ""


def _check_addition(change: AddColumn, rules: MergeRules, table: str) -> None:
    known = [group.ordering for group in rules.groups]
    if change.group and change.group not in known:
        raise InvalidInput(
            f"column {change.name!r} is to join the group {change.group!r}, which {table} does not "
            f"have: its groups are {', '.join(known) or 'none'}; leave the group out"
        )
    if change.group and change.default is not None:
        raise InvalidInput(
            f"column {change.name!r} joins the group {change.group!r}, so it has no default "
            f"({change.default!r}): a group is set as a whole, nulls included; leave the default "
            "out, or the group"
        )


def groups_after(
    groups: Sequence[ColumnGroup], changes: Sequence[ColumnChange]
) -> tuple[ColumnGroup, ...]:
    """Return the column groups after changes that were checked."""
    members = {group.ordering: list(group.columns) for group in groups}
    for change in changes:
        match change:
            case AddColumn(name=name, group=group) if group:
                members[group].append(name)
            case DropColumn(name=name):
                members = {by: [n for n in some if n != name] for by, some in members.items()}
            case RenameColumn(name=name, new=new):
                members = {
                    by: [new if n == name else n for n in some] for by, some in members.items()
                }
            case _:
                pass
    return tuple(ColumnGroup(columns=tuple(some), ordering=by) for by, some in members.items())


def records_after(
    records: Sequence[Column], wanted: Sequence[Column], before: Schema, after: Schema
) -> tuple[Column, ...]:
    """Return hidden columns with their ids.

    Args:
        records: the hidden columns before.
        wanted: those of the rules after the change.
        before: the table's columns before.
        after: its columns after the change.
    """
    old, new = _ids(before), _ids(after)
    kept = {_owned(name, old): number for name, number in hidden_ids(records).items()}
    found = []
    for column in wanted:
        owned = _owned(column.name, new)
        number = kept.get(owned) or id_beside(owned[1], _OWNED.index(owned[0]))
        found.append(
            Column(name=column.name, type=column.type, nullable=column.nullable, id=number)
        )
    return tuple(found)


def _ids(schema: Schema) -> Mapping[str, int]:
    return {column.name: column.id for column in schema.numbered}


def _owned(name: str, ids: Mapping[str, int]) -> tuple[str, int]:
    """Return what a hidden column says, and the id of the column of which it says it (0: none)."""
    for prefix in _OWNED:
        if name.startswith(prefix):
            return prefix, ids[name.removeprefix(prefix)]
    return name, 0
