"""Read the data of many nodes with one request.

1. ZooKeeper has a request for it since 3.6 (``multiRead``), which kazoo lacks. The answer has the
   data of each node, or its error: one that is absent hides no other.
2. An older server refuses the request, and another program that speaks its protocol may drop the
   connection. From then on the link asks for each node by itself, all at once.
3. A request names ``TOGETHER`` nodes at most, so that it is small for a server.
"""

from collections.abc import Iterator, Sequence
from contextlib import suppress
from typing import Any, ClassVar, TypeAlias

from kazoo.exceptions import EXCEPTIONS, NoNodeError, UnimplementedError
from kazoo.protocol.serialization import (
    GetData,
    int_struct,
    multiheader_struct,
    stat_struct,
    write_string,
)

from airflow_provider_segtable.coordination.zookeeper.link import Link
from airflow_provider_segtable.core.dataclass import dataclass

TOGETHER = 1000
"""The number of nodes that one request reads: less than 100 kB each way."""
_ERROR = -1

Answer: TypeAlias = bytes | int
"""The data of a node, or the number of the error that keeps it from being read."""


@dataclass(frozen=True, slots=True)
class MultiRead:
    """A request for the data of nodes, in the form of kazoo's own requests."""

    paths: Sequence[str]
    type: ClassVar[int] = 22

    def serialize(self) -> bytes:
        """Return the request's body: a header and a request without a watch for each node."""
        head: bytes = multiheader_struct.pack(GetData.type, 0, -1)
        reads = [head + write_string(path) + b"\0" for path in self.paths]
        end: bytes = multiheader_struct.pack(_ERROR, 1, -1)
        return b"".join(reads) + end

    @staticmethod
    def deserialize(body: bytes, offset: int) -> list[Answer]:
        """Return the answers, in the order of the paths."""
        found: list[Answer] = []
        while True:
            kind, done, _ = multiheader_struct.unpack_from(body, offset)
            offset += multiheader_struct.size
            if done:
                return found
            (number,) = int_struct.unpack_from(body, offset)
            offset += int_struct.size
            if kind == _ERROR:
                found.append(number)
                continue
            length = max(number, 0)  # data that is null has no length
            found.append(bytes(body[offset : offset + length]))
            offset += length + stat_struct.size


def read_many(link: Link, paths: Sequence[str]) -> Iterator[bytes | None]:
    """Yield the data of nodes, in their order; None for those that are absent.

    Raises:
        Interrupted: the connection dropped.
        KazooException: a node cannot be read.
    """
    for at in range(0, len(paths), TOGETHER):
        for answer in _answers(link, paths[at : at + TOGETHER]):
            if isinstance(answer, int) and answer != NoNodeError.code:
                raise EXCEPTIONS[answer]
            yield None if isinstance(answer, int) else answer


def _answers(link: Link, paths: Sequence[str]) -> Sequence[Answer]:
    if link.reads_together:
        with suppress(UnimplementedError):
            return _together(link, paths)
    begun = [link.begin(link.client.get_async, path) for path in paths]
    return [_answer(link, each) for each in begun]


def _together(link: Link, paths: Sequence[str]) -> Sequence[Answer]:
    link.reads_together = False  # unless there is an answer
    found: list[Answer] = link.call(_multi_read_async, link.client, paths)
    link.reads_together = True
    return found


def _multi_read_async(client: Any, paths: Sequence[str]) -> Any:
    """Send the request, as kazoo's ``*_async`` calls send theirs; paths are whole in a link."""
    result = client.handler.async_result()
    client._call(MultiRead(paths), result)  # noqa: SLF001 - a request of one's own has no other way
    return result


def _answer(link: Link, begun: Any) -> Answer:
    try:
        data: bytes = link.wait(begun)[0]
    except NoNodeError as error:
        return int(error.code)
    return data
