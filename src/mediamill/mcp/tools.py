"""What a tool is: a name, its arguments as a type (which is its JSON schema, too), and what it answers."""

from __future__ import annotations

import logging
import re
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any

import msgspec

from mediamill.db.connection import LOST
from mediamill.errors import InvalidError, MediamillError

log = logging.getLogger(__name__)

FOR_PEOPLE = re.compile(r"\bmediamill [a-z]|MEDIAMILL_")
FIXES = {
    "unknown_asset": 'find it with the tool search: {"sources": ["library"]}',
    "unknown_video": 'find it with the tool search: {"sources": ["video"]}',
    "unknown_file": 'find it with the tool search: {"sources": ["file"]}',
    "unknown_message": 'find it with the tool search: {"sources": ["message"]}',
    "unknown_library": "the tool list_libraries has the slugs of all",
    "no_pgvector": "search by words, with `query`",
}

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


def _fix_for_agents(error: MediamillError) -> str | None:
    """An agent has tools, and no commands or settings."""
    if error.code in FIXES:
        return FIXES[error.code]
    if error.fix is not None and FOR_PEOPLE.search(error.fix):
        return f"ask the person who runs this mediamill: {error.fix}"
    return error.fix


def tell(value: Any) -> Content:
    """Data, as JSON in a text."""
    return [{"type": "text", "text": msgspec.json.encode(value).decode()}]


def told_error(error: Exception) -> dict[str, Any]:
    """What went wrong, for the agent: a stable code, words, and often what to do about it."""
    if isinstance(error, MediamillError):
        told = {"code": error.code, "message": error.message, "fix": _fix_for_agents(error)}
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
