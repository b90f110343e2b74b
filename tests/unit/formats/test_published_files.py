"""Files that versions share are those of plain mappings, and cost what changed."""

import random
from collections.abc import Iterator
from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from airflow_provider_segtable.formats.format import PublishedFile
from airflow_provider_segtable.formats.published_files import PublishedFiles
from tests.examples import examples


def file(path: str, key: str = "") -> PublishedFile:
    return PublishedFile(path=path, key=key)


@examples(30)
@given(st.randoms(use_true_random=False))
def test_files_are_those_of_a_plain_mapping(draw: random.Random) -> None:
    """Whatever is added, replaced or removed, also what is not there."""
    paths = [f"data/{at}" for at in range(draw.choice([5, 80]))]
    plain = {path: file(path) for path in paths if draw.random() < 0.5}
    versions = [(plain, PublishedFiles(plain))]
    for _ in range(40):
        plain, found = versions[-1]
        some = draw.sample(paths, draw.randint(0, 4))
        changes = {p: file(p, draw.choice("ab")) if draw.random() < 0.6 else None for p in some}
        merged = {**plain, **changes}
        plain = {path: each for path, each in merged.items() if each is not None}
        versions.append((plain, found.changed(changes)))
    for plain, found in versions:
        assert (dict(found), len(found)) == (plain, len(plain))
        assert all((path in found) == (path in plain) for path in paths)
    for (one, ours), (other, theirs) in pairwise(draw.sample(versions, 8)):
        assert ours.differing(theirs) == {p for p in paths if one.get(p) != other.get(p)}


class Counted(dict[str, PublishedFile]):
    """Files that count how often all of them are visited."""

    visits = 0

    def __iter__(self) -> Iterator[str]:
        """Count a visit."""
        type(self).visits += 1
        return super().__iter__()


def test_a_few_changes_visit_no_other_file() -> None:
    """Neither when a version is made, nor when two are compared."""
    many = Counted({f"data/{at}": file(f"data/{at}") for at in range(10_000)})
    Counted.visits = 0
    first = PublishedFiles(many)
    last = first
    for at in range(50):
        last = last.changed({f"data/new-{at}": file(f"data/new-{at}"), f"data/{at}": None})
    assert len(last.differing(first)) == 100
    assert Counted.visits <= 1
