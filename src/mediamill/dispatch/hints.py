"""The contract between a lane and whoever wakes it."""

from __future__ import annotations

from typing import Protocol


class Hints(Protocol):
    """A lane says what it is doing, so that a hint reaches one that has time. None of this ever waits."""

    def look(self, pool: str) -> None:
        """The lane asks the database for jobs now: hints that it has had so far are being followed."""

    def idle(self, pool: str) -> None:
        """There was nothing. The hints that it followed are done with, and the lane waits for the next."""

    def full(self, pool: str) -> None:
        """The lane has no room. If it was idle before, there may be more than it took: another should look."""


class EverybodyHears:
    """What the database's notifications need: nothing. They reach every lane."""

    def look(self, pool: str) -> None:
        """See Hints."""

    def idle(self, pool: str) -> None:
        """See Hints."""

    def full(self, pool: str) -> None:
        """See Hints."""
