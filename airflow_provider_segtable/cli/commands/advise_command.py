"""``segtable advise``: the change of a table that would save its readers most files."""

from rich.console import Group
from rich.text import Text

from airflow_provider_segtable.cli.input.options import CommonOptions, option_groups
from airflow_provider_segtable.core.facts import Facts


@option_groups
def advise(*, common: CommonOptions) -> None:
    """Advise on a table by its reads: the change that would save most files, and its command.

    [green]segtable table set ./flights statistics.reads=sampled[/]   record one read in ten
    [green]segtable advise ./flights[/]                               some days later

    Recorded are the columns that reads test (equality, in, range), never
    values, and how many files they opened. Each advice compares these files
    with an estimate: an index, a clustering, coarser time chunks or fewer
    buckets. It names its number of reads and the command that applies it.
    Nothing is changed. Facts are written when a process ends, or after ten
    minutes; the command counts those of statistics.hours, the newer the more.
    """
    from airflow_provider_segtable.services.read_statistics import advise_from_reads

    found = advise_from_reads(common.open().ports, common.table)
    common.answer({"table": common.table, **found.facts()}, _draw)


def _draw(facts: Facts) -> Group:
    if not facts["advice"]:
        return Group(Text(f"nothing to advise, because {facts['nothing']}"))
    lines = [Text(f"{facts['reads']:,.0f} reads from {facts['from']} to {facts['to']}")]
    for each in facts["advice"]:
        lines += [Text(), Text(_sentence(each), style="bold")]
        lines += [Text(f"  {command}", style="green") for command in each["commands"]]
    return Group(*lines)


def _sentence(advice: Facts) -> str:
    of = f" that test {advice['tests']}" if advice["tests"] else ""
    return (
        f"{advice['change']}: {advice['reads']:,.0f} reads{of} opened "
        f"{advice['files_opened']:,.1f} files each, and would open {advice['files_estimated']:,.1f}"
    )
