"""Searches to vectors, in a child process that comes with the first search and goes when nobody searches."""

from __future__ import annotations

from collections import OrderedDict
from pathlib import Path
from typing import Any

from mediamill.errors import GiveUpError, RetryLaterError, UnavailableError
from mediamill.worker.sandbox import Limits, Sandbox, SandboxJob

PROCESSOR = "embed"
LIMITS = Limits(timeout_seconds=60, memory_bytes=2 << 30, output_bytes=100_000, file_bytes=1 << 20)
REMEMBERED = 500  # searches: pages of results, and the same search by word, meaning and look
QUERY_CHARACTERS = 1_000


class NoVectorsError(UnavailableError):
    """Searches cannot be turned into vectors now."""

    code = "no_vectors"


class QueryVectors:
    """Vectors as base64, by the same models as those of what is found."""

    def __init__(self, data_folder: Path, *, limits: Limits = LIMITS, idle_seconds: float = 300) -> None:
        scratch = data_folder / "scratch" / "queries"
        self.sandbox = Sandbox(
            PROCESSOR, size=1, spare=0, limits=limits, scratch=scratch, idle_seconds=idle_seconds
        )
        self._known: OrderedDict[tuple[bool, str | None, str], str] = OrderedDict()

    async def start(self) -> None:
        """Clear what dead processes left."""
        await self.sandbox.start()

    async def close(self) -> None:
        """End the child; searches that are under way fail with NoVectorsError."""
        await self.sandbox.close()

    async def text(self, query: str, model: str | None = None) -> str:
        """What the search means, to be compared with texts. NoVectorsError: not now, and why.

        `model`: one that was used before, and that some vectors are still of.
        """
        return await self._vector(query, model, look=False)

    async def look(self, query: str, model: str | None = None) -> str:
        """What the search would look like, to be compared with images."""
        return await self._vector(query, model, look=True)

    async def _vector(self, query: str, model: str | None, *, look: bool) -> str:
        asked = " ".join(query[:QUERY_CHARACTERS].split())
        key = (look, model, asked)
        known = self._known.get(key)
        if known is None:
            named = {} if model is None else {"model": model}
            known = await self._embed({"query": asked, "look": look, **named})
        self._known[key] = known
        self._known.move_to_end(key)
        if len(self._known) > REMEMBERED:
            self._known.popitem(last=False)
        return known

    async def _embed(self, payload: dict[str, Any]) -> str:
        try:
            output = await self.sandbox.run(SandboxJob(payload))
        except (RetryLaterError, GiveUpError, UnavailableError, OSError) as error:
            fix = error.fix if isinstance(error, RetryLaterError | GiveUpError | UnavailableError) else None
            raise NoVectorsError(f"the search cannot be turned into a vector: {error}", fix=fix) from error
        match output.result.get("vectors"):
            case [str(vector)]:
                return vector
        raise NoVectorsError("the search cannot be turned into a vector: nothing came back")
