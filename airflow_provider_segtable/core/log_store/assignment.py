"""Which service should have which buckets of a table: few moves, even shares.

1. Of ``n`` buckets and ``s`` services each has ``n // s`` buckets, or one more. Services that have
   most today keep the larger shares.
2. A service keeps the buckets that it has, up to its share. So when a service starts, only its
   share moves; when one ends, only its buckets.
3. Free buckets go to the services with room, by rendezvous: each pair of bucket and service has a
   score, and the highest one wins. So services that come to the same view agree without a word, and
   the buckets of many small tables spread.
4. Claims are exclusive, so views that differ for a moment do no harm: once all buckets are held in
   shares of rule 1, no bucket moves any more.
"""

from collections.abc import Collection, Mapping

from airflow_provider_segtable.core.paths import digest


def assign(
    table: str, buckets: Collection[int], services: Collection[str], held: Mapping[int, str]
) -> dict[int, str]:
    """Return the service of each bucket; empty without services.

    Args:
        table: the table's id, so that tables differ.
        buckets: the numbers of the buckets.
        services: the names of the live services.
        held: which service has a bucket now; others than live ones do not count.
    """
    mine = {name: [b for b in sorted(buckets) if held.get(b) == name] for name in services}
    shares = _shares(table, len(buckets), mine)
    assigned: dict[int, str] = {}
    for name, has in mine.items():
        best = sorted(has, key=lambda bucket: _score(table, bucket, name))
        assigned |= dict.fromkeys(best[: shares[name]], name)
        shares[name] -= min(len(has), shares[name])
    for bucket in sorted(set(buckets) - assigned.keys()):
        room = [name for name, left in shares.items() if left]
        if room:
            assigned[bucket] = min(room, key=lambda name: _score(table, bucket, name))
            shares[assigned[bucket]] -= 1
    return assigned


def _shares(table: str, count: int, mine: Mapping[str, Collection[int]]) -> dict[str, int]:
    """Return how many buckets each service should have."""
    ranked = sorted(mine, key=lambda name: (-len(mine[name]), _score(table, "share", name)))
    return {name: (count + len(mine) - 1 - rank) // len(mine) for rank, name in enumerate(ranked)}


def _score(table: str, item: object, service: str) -> tuple[str, str]:
    return digest(f"{table}/{item}/{service}".encode()), service
