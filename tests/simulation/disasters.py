"""The faults of the standing disaster: some classes each, with every rate drawn from a seed.

``swarm`` switches each class on or off. The others are mixes that reach what a swarm reaches
seldom; ``faults_of`` gives every second seed one of them, by turns.
"""

from collections.abc import Callable
from random import Random

from tests.simulation.faults.faulty_storage import Faults


def slow(seed: int) -> Faults:
    """Nothing but delays, so that appends finish after the compaction that began after them."""
    return Faults(random=Random(seed), delay=0.2)


def mixed(seed: int) -> Faults:
    """Locks that get lost, requests that arrive late, replies that do not arrive."""
    return Faults(random=Random(seed), delay=0.1, expiry=0.1, blind=0.5, lost_reply=0.05, late=0.05)


def lawless(seed: int) -> Faults:
    """Locks that get lost all the time, and a coordinator that says they hold."""
    return Faults(random=Random(seed), delay=0.3, expiry=0.3, deaf=0.5, blind=0.9)


def wiped(seed: int) -> Faults:
    """A coordinator that forgets everything, again and again."""
    return Faults(random=Random(seed), delay=0.3, expiry=0.1, wipe=0.2, deaf=0.5)


def forgetful(seed: int) -> Faults:
    """A coordinator that forgets everything, and replies that get lost."""
    return Faults(random=Random(seed), delay=0.2, expiry=0.1, wipe=0.2, lost_reply=0.1, late=0.05)


def unheard(seed: int) -> Faults:
    """Replies that get lost, and reads that fail afterwards."""
    return Faults(random=Random(seed), delay=0.1, error=0.05, lost_reply=0.3, late=0.1, expiry=0.1)


def harsh(seed: int) -> Faults:
    """Some of everything, deaths included."""
    return Faults(
        random=Random(seed),
        delay=0.1,
        error=0.02,
        lost_reply=0.1,
        false_exists=0.1,
        crash=0.01,
        expiry=0.1,
        wipe=0.02,
        deaf=0.3,
    )


def wrong_clocks(seed: int) -> Faults:
    """Clocks that jump by years and days, and back."""
    return Faults(random=Random(seed), clock=0.05, lost_reply=0.02)


MIXES: tuple[Callable[[int], Faults], ...] = (
    slow,
    mixed,
    lawless,
    wiped,
    forgetful,
    unheard,
    harsh,
    wrong_clocks,
)


def faults_of(seed: int) -> Faults:
    """Return the faults of a seed: a swarm for even ones, a mix for odd ones."""
    if seed % 2 == 0:
        return Faults.swarm(Random(seed))
    return MIXES[seed // 2 % len(MIXES)](seed)
