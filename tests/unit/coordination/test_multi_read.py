"""The request for the data of many nodes, as bytes."""

import pytest

from airflow_provider_segtable.coordination.zookeeper.multi_read import MultiRead

READ, END, NO_NODE, NO_AUTH = 4, -1, -101, -102
STAT = bytes(range(68))


def word(number: int) -> bytes:
    return number.to_bytes(4, "big", signed=True)


def head(kind: int, *, done: bool = False) -> bytes:
    return word(kind) + bytes([done]) + word(-1 if done else 0)


def data(content: bytes | None) -> bytes:
    size = -1 if content is None else len(content)
    return head(READ) + word(size) + (content or b"") + STAT


def test_a_request_has_a_read_without_a_watch_for_each_node() -> None:
    """ZooKeeper's own form: header, path, watch; and a header that ends it."""
    body = MultiRead(["/a", "/\N{LATIN SMALL LETTER O WITH DIAERESIS}"]).serialize()
    reads = [word(READ) + b"\0" + word(-1), word(2), b"/a", b"\0"]
    reads += [word(READ) + b"\0" + word(-1), word(3), b"/\xc3\xb6", b"\0"]
    assert body == b"".join(reads) + word(END) + b"\1" + word(-1)


def test_an_answer_has_data_or_an_error_of_each_node() -> None:
    """In the order of the request; an error hides nothing after it."""
    errors = [head(END) + word(code) for code in (NO_NODE, NO_AUTH)]
    body = b"".join([data(b"17"), errors[0], data(None), errors[1], data(b""), data(b"8")])
    found = MultiRead.deserialize(b"xy" + body + head(END, done=True) + b"", 2)
    assert found == [b"17", NO_NODE, b"", NO_AUTH, b"", b"8"]


@pytest.mark.parametrize("cut", [1, 40])
def test_an_answer_that_ends_early_is_an_error(cut: int) -> None:
    """It is never taken for a shorter answer."""
    body = data(b"17") + head(END, done=True)
    with pytest.raises(Exception, match="unpack_from"):
        MultiRead.deserialize(body[:-cut], 0)
