"""Kinds of actions: each is one type, which answers for itself.

1. An action's fields are its arguments. An unknown or unfit one is refused with its value, before
   anything is read.
2. ``foresee`` says what the action would do: by a dry run of the service that does it, or by the
   service's own checks. It writes nothing.
3. A preview is *pinned* to a version and a time. Where an action goes by the newest version, or by
   ages, it goes by the pin: so a busy table does not change what the user has seen.
4. The *seal* of a preview is its pin and a digest of its essence: the action, its arguments, and
   what it takes away or brings back. ``do`` is called only if the essence is still the same. Counts
   that grow with each commit are effects, and no essence.
5. ``do`` calls the service. Its event has the author of the ports, which is the user.
6. ``runs`` says where the work is done that takes longer: see ``Runs``.
"""

import hashlib
import json
import re
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import field
from enum import StrEnum
from shlex import join
from typing import Annotated, Any, ClassVar, Self

from pydantic import StringConstraints, ValidationError

from airflow_provider_segtable.core.arguments import shown
from airflow_provider_segtable.core.dataclass import dataclass
from airflow_provider_segtable.core.errors import InvalidInput, SegtableError
from airflow_provider_segtable.core.facts import Facts
from airflow_provider_segtable.core.time import Instant
from airflow_provider_segtable.page.answer import Shown
from airflow_provider_segtable.page.lake import Seen

Text = Annotated[str, StringConstraints(min_length=1, max_length=1000)]
_SEAL = re.compile(r"(\d{1,18})\.(\d{1,18})\.([0-9a-f]{32})")
_UNFIT = re.compile(r"[^\w.@+=-]+")
LONGEST_NAME = 80


class Changed(SegtableError):
    """What an action would do has changed since it was shown, or it was not shown at all."""


class Runs(StrEnum):
    """Where an action's work is done.

    ``event``: at once, by one event. ``plans``: plans are requested at once, and carried out by a
    worker. ``planner``, ``upkeep``: by the planner, or by the upkeep of the table.
    """

    EVENT = "event"
    PLANS = "plans"
    PLANNER = "planner"
    UPKEEP = "upkeep"


@dataclass(frozen=True, slots=True, kw_only=True)
class Pin:
    """The version and the time that a preview is of."""

    n: int
    at: Instant


@dataclass(frozen=True, slots=True, kw_only=True)
class Foreseen:
    """What an action would do.

    Attributes:
        sentence: the action in one sentence.
        effects: its effects, in numbers.
        command: arguments of ``segtable`` that do the same.
        confirm: the question to ask.
        essence: what the user agrees to, as plain values.
    """

    sentence: str
    effects: tuple[str, ...] = ()
    command: tuple[str, ...]
    confirm: str
    essence: Facts = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Done:
    """What was done; ``plans`` are pending ones that a worker has to carry out."""

    sentence: str
    plans: tuple[str, ...] = ()


class Action(Shown, ABC):
    """An action, with its arguments as fields."""

    name: ClassVar[str]
    runs: ClassVar[Runs] = Runs.EVENT

    @abstractmethod
    def foresee(self, seen: Seen, pin: Pin) -> Foreseen:
        """Return what the action would do.

        Raises:
            SegtableError: it cannot be done; the message has the reason.
        """

    @abstractmethod
    def do(self, seen: Seen, pin: Pin, key: str) -> Done:
        """Do it by the ports, whose author is the user; equal keys do it once where that matters.

        Raises:
            SegtableError: as the service.
        """

    def conf(self, seen: Seen, pin: Pin) -> Facts:
        """Return the action as values for a run of the upkeep."""
        del seen, pin
        return {}

    @classmethod
    def of(cls, arguments: Mapping[str, Any]) -> Self:
        """Return the action with some arguments.

        Raises:
            InvalidInput: one is unknown, missing or unfit; the message has its name and value.
        """
        try:
            return cls.model_validate(dict(arguments))
        except ValidationError as error:
            first = error.errors(include_url=False)[0]
            where = ".".join(map(str, first["loc"])) or "arguments"
            given = "" if first["type"] == "missing" else f" = {shown(first['input'])}"
            raise InvalidInput(f"{cls.name}: {where}{given}: {first['msg']}") from None


def sealed(action: Action, table: str, pin: Pin, foreseen: Foreseen) -> str:
    """Return the seal of a preview."""
    essence = [action.name, table, action.model_dump(mode="json"), foreseen.essence]
    text = json.dumps(essence, sort_keys=True, default=str)
    return f"{pin.n}.{pin.at}.{hashlib.sha256(text.encode()).hexdigest()[:32]}"


def pin_of(seal: str, newest: Pin) -> Pin:
    """Return the pin of a seal, at most the newest one.

    Raises:
        Changed: the text is no seal.
    """
    found = _SEAL.fullmatch(seal)
    if found is None:
        raise Changed("this was not shown before: look at the preview, then confirm it")
    return Pin(n=min(int(found[1]), newest.n), at=min(int(found[2]), newest.at))


def key_of(seal: str) -> str:
    """Return a key that is equal for equal previews alone, e.g. as a commit id."""
    return f"page-{hashlib.sha256(seal.encode()).hexdigest()[:20]}"


def author_named(user: str, token: str) -> str:
    """Return a user as the author of events: ``NAME:TOKEN``, as processes are ``HOST:PID``.

    Each action has a token of its own, so that its events are known from those of another one.
    """
    name = _UNFIT.sub("_", user)[:LONGEST_NAME] or "unknown"
    return f"{name}:{token[:6]}"


def command_line(seen: Seen, foreseen: Foreseen) -> str:
    """Return the command that does the same, as a shell takes it."""
    return seen.safe(join(("segtable", *foreseen.command)))
