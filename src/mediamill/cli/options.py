"""Options that several commands share, and the questions they ask."""

from __future__ import annotations

import sys
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from mediamill.errors import InvalidError
from mediamill.files import expand

LARGEST_ID = 2**63 - 1

Json = Annotated[bool, typer.Option("--json", help="Print JSON for scripts.")]
Yes = Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")]
Limit = Annotated[int, typer.Option(min=1, max=100_000, help="Show at most so many.")]
Before = Annotated[
    int | None,
    typer.Option(min=1, max=LARGEST_ID, help="Only jobs with a smaller id: to page on.", metavar="ID"),
]
Kind = Annotated[str | None, typer.Option(help="Only jobs of this kind.")]
Owner = Annotated[str | None, typer.Option(help="Only jobs of this owner.")]
PoolName = Annotated[str | None, typer.Option(help="Only jobs of this pool.")]
JobId = Annotated[
    int, typer.Argument(min=1, max=LARGEST_ID, metavar="ID", help="The job's id.", show_default=False)
]
JobIds = Annotated[
    list[int] | None,
    typer.Argument(min=1, max=LARGEST_ID, metavar="ID…", help="Ids of jobs.", show_default=False),
]


class PriorityName(StrEnum):
    """How soon something is claimed."""

    HIGH = "high"
    NORMAL = "normal"
    LOW = "low"


def typed(path: Path) -> Path:
    """As a person types it: `~` is the home folder, also where no shell has seen to that."""
    return Path(expand(str(path)))


def examples(*lines: str) -> str:
    """The end of a help text."""
    return "\n".join(("\b", "Examples:", *(f"  {line}" for line in lines)))  # \b: do not wrap


def confirm(question: str, yes: bool) -> None:
    """Ask before something that cannot be undone; where nobody can answer, --yes must have been said."""
    if yes:
        return
    if not sys.stdin.isatty():
        raise InvalidError(f"{question} Nobody is here to answer.", fix="add --yes")
    typer.confirm(question, abort=True, err=True)
