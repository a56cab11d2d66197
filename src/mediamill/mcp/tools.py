"""What a tool is: a name, its arguments as a type (which is its JSON schema, too), and what it answers."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any

import msgspec

from mediamill.db.connection import LOST
from mediamill.errors import InvalidError, MediamillError

log = logging.getLogger(__name__)

Progress = Callable[[float, str], None]  # percent, and what is done now
Content = list[dict[str, Any]]


class BadArgumentsError(InvalidError):
    """The arguments do not fit the tool."""

    code = "bad_arguments"


@dataclass(frozen=True, slots=True)
class Tool:
    """`arguments`: a struct; `run` is given one that is whole and of the right types."""

    name: str
    description: str
    arguments: type[msgspec.Struct]
    run: Callable[[Any, Progress], Awaitable[Content]]
    reads_only: bool = True

    def to_json(self) -> dict[str, Any]:
        """As clients list it."""
        _, parts = msgspec.json.schema_components([self.arguments])
        schema = parts[self.arguments.__name__]
        return {
            "name": self.name,
            "description": self.description,
            "inputSchema": {key: value for key, value in schema.items() if key != "title"},
            "annotations": {
                "readOnlyHint": self.reads_only,
                "destructiveHint": False,
                "openWorldHint": False,
            },
        }

    async def call(self, arguments: Any, progress: Progress) -> dict[str, Any]:
        """The result of a call."""
        try:
            given = msgspec.convert(arguments, self.arguments)
        except msgspec.ValidationError as error:
            raise BadArgumentsError(str(error)[:500], fix="look at the tool's inputSchema") from None
        return {"content": await self.run(given, progress), "isError": False}


def tell(value: Any) -> Content:
    """Data, as JSON in a text."""
    return [{"type": "text", "text": msgspec.json.encode(value).decode()}]


def told_error(error: Exception) -> dict[str, Any]:
    """What went wrong, for the agent: a stable code, words, and often what to do about it."""
    if isinstance(error, MediamillError):
        told = {"code": error.code, "message": error.message, "fix": error.fix}
    elif isinstance(error, LOST):
        told = {
            "code": "unavailable",
            "message": "the database does not answer",
            "fix": "try again in a moment",
        }
    else:
        log.error("a call failed", exc_info=error)
        told = {
            "code": "internal",
            "message": f"unexpected {type(error).__name__}",
            "fix": "see the log on stderr",
        }
    return {"content": tell({"error": told}), "isError": True}
