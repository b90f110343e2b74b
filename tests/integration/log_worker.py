"""A log store's writer to be killed: ``python -m tests.integration.log_worker TABLE ZOOKEEPER``.

It carries out the commands of its standard input, one a line, and answers each with a line:
``append FIRST COUNT`` appends numbered rows, ``checkpoint`` commits, ``stream FIRST`` appends rows
one by one, commits by the policy, and says after each what is committed. Its end is that of its
input.
"""

import sys

from airflow_provider_segtable.library.log_writer import TableLogWriter
from airflow_provider_segtable.library.table import Table
from tests.unit.library.log_world import rows


def say(*words: object) -> None:
    """Write an answer."""
    sys.stdout.write(" ".join(map(str, words)) + "\n")
    sys.stdout.flush()


def stream(log: TableLogWriter, first: int) -> None:
    """Append until killed."""
    number = first
    while True:
        log.append(rows(number))
        number += 1
        say(number - first, log.committed[0])


def main(uri: str, zookeeper: str) -> None:
    """Run the writer."""
    table = Table.open(uri, zookeeper=zookeeper)
    with table.log_writer() as log:
        say("open", log.epoch, log.end[0])
        for line in sys.stdin:
            match line.split():
                case ["append", first, count]:
                    log.append(rows(*range(int(first), int(first) + int(count))))
                    say("appended", log.end[0])
                case ["checkpoint"]:
                    say("version", log.checkpoint())
                case ["stream", first]:
                    stream(log, int(first))


if __name__ == "__main__":
    main(*sys.argv[1:])
