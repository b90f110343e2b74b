"""The turns and offers of the writers of one simulated host (``ports.storage.Turn``)."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field

from tests.simulation.faults.faulty_storage import Faults
from tests.simulation.simulator import Actor


@dataclass(eq=False, slots=True)
class Offer:
    """An offer, and the number of its claim."""

    data: bytes
    claim: int | None = None


@dataclass(eq=False, slots=True)
class Host:
    """Who has the turn, who waits, and what they offer; counts what happened."""

    holder: object | None = None
    waiting: list[Actor] = field(default_factory=list)
    offers: dict[int, Offer] = field(default_factory=dict)
    made: int = 0
    claimed: int = 0
    paused: int = 0

    @contextmanager
    def turn(
        self, actor: Actor, faults: Faults, wait_s: float, offer: Callable[[], bytes | None] | None
    ) -> Iterator["HostTurn"]:
        """Wait for a turn, and hold it."""
        turn = HostTurn(self, actor, faults)
        if self.holder is not None:
            data = offer() if offer is not None else None
            name = None if data is None else self._offered(actor, faults, data)
            self._wait(actor, wait_s)
            if name is not None:
                turn.withdraw(name)
        if self.holder is None:
            self.holder = turn
            actor.on_crash.append(lambda: self.leave(turn))
        else:
            self.paused += 1
        try:
            yield turn
        finally:
            self.leave(turn)

    def _offered(self, actor: Actor, faults: Faults, data: bytes) -> int:
        faults.boundary(actor, "before offer")
        self.made += 1
        self.offers[self.made] = Offer(data)
        return self.made

    def _wait(self, actor: Actor, wait_s: float) -> None:
        running = actor.simulation.running
        self.waiting.append(running)
        end = actor.monotonic() + wait_s
        while self.holder is not None and actor.monotonic() < end:
            actor.sleep(end - actor.monotonic())
        if running in self.waiting:
            self.waiting.remove(running)

    def leave(self, turn: object) -> None:
        """End a turn; whoever has waited longest goes on."""
        if self.holder is turn:
            self.holder = None
            if self.waiting:
                following = self.waiting.pop(0)
                following.wake_at = following.simulation.now


@dataclass(eq=False, slots=True)
class HostTurn:
    """A turn of a simulated writer; its holder may be delayed or die at any call."""

    host: Host
    actor: Actor
    faults: Faults
    claimed: bool = False
    claimed_as: int | None = None
    claims: list[int] = field(default_factory=list)

    def withdraw(self, name: int) -> None:
        """Take an offer back, or find out that it was claimed."""
        self.faults.boundary(self.actor, "before withdrawal")
        found = self.host.offers.get(name)
        self.claimed = found is None or found.claim is not None
        self.claimed_as = None if found is None else found.claim
        if not self.claimed:
            del self.host.offers[name]
        self.faults.boundary(self.actor, "after withdrawal")

    def claim(self, number: int, most: int) -> Sequence[bytes]:
        """Claim offers; some may be unreadable."""
        self.faults.boundary(self.actor, "before claim")
        found: list[bytes] = []
        for name, offer in sorted(self.host.offers.items()):
            if offer.claim is not None:
                if offer.claim < number:
                    del self.host.offers[name]
            elif len(found) < most:
                offer.claim = number
                self.claims.append(name)
                self.host.claimed += 1
                if not self.faults.happens("error"):
                    found.append(offer.data)
        self.faults.boundary(self.actor, f"after claim as {number}")
        return found

    def end_claims(self) -> None:
        """End the claims of this turn."""
        if self.claims:
            self.faults.boundary(self.actor, "before end of claims")
        while self.claims:
            self.host.offers.pop(self.claims.pop(), None)
