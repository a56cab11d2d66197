"""What a scan counts and tells, and why it refuses."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field, fields
from typing import Any

from mediamill.errors import ConflictError, UnavailableError

MOST_WARNINGS = 20


class ScanFailedError(UnavailableError):
    """The folder of the library cannot be read."""

    code = "scan_failed"


class ScanRefusedError(ConflictError):
    """The folder of the library is empty, as if it were not mounted."""

    code = "scan_refused"


class ScanBusyError(ConflictError):
    """The library is being scanned."""

    code = "scan_busy"


class ScanLostError(ConflictError):
    """Another scan of the library has taken over."""

    code = "scan_lost"


class LibraryPausedError(ConflictError):
    """The library is paused."""

    code = "library_paused"


@dataclass(slots=True)
class ScanCounts:
    """`files` are images and videos; `others` is what a library does not take. `warnings`: the first few."""

    folders: int = 0
    files: int = 0
    new: int = 0
    changed: int = 0
    vanished: int = 0
    back: int = 0
    renamed: int = 0
    unchanged: int = 0
    links: int = 0
    others: int = 0
    too_long: int = 0
    unreadable: int = 0
    left_alone: int = 0
    warnings: list[str] = field(default_factory=list)

    @classmethod
    def read(cls, saved: dict[str, Any]) -> ScanCounts:
        """As an earlier run left them."""
        names = {one.name for one in fields(cls)}
        return cls(**{name: value for name, value in saved.items() if name in names})

    def warn(self, text: str) -> None:
        """For people; too many say no more than a few."""
        if len(self.warnings) < MOST_WARNINGS:
            self.warnings.append(text)

    def add(self, name: str, amount: int) -> None:
        """Count."""
        setattr(self, name, getattr(self, name) + amount)

    @property
    def found_changes(self) -> bool:
        """Is anything other than before?"""
        return bool(self.new or self.changed or self.vanished or self.back or self.renamed)

    def as_dict(self) -> dict[str, Any]:
        """For JSON."""
        return asdict(self)
