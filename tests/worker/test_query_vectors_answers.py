"""Searches as vectors, whatever a child answers: what is asked of it, what is remembered, and what is said."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from mediamill.errors import GiveUpError, RetryLaterError, UnavailableError
from mediamill.processors.contract import ProcessorOutput
from mediamill.worker import query_vectors
from mediamill.worker.query_vectors import NoVectorsError, QueryVectors
from mediamill.worker.sandbox import SandboxJob


class Played:
    """In the place of the sandbox."""

    def __init__(self) -> None:
        self.asked: list[dict[str, Any]] = []
        self.end: Any = None

    async def run(self, job: SandboxJob) -> ProcessorOutput:
        self.asked.append(dict(job.payload))
        if isinstance(self.end, Exception):
            raise self.end
        return ProcessorOutput(self.end or {"vectors": [f"v{len(self.asked)}"]})


@pytest.fixture
def vectors(tmp_path: Path) -> tuple[QueryVectors, Played]:
    found, played = QueryVectors(tmp_path), Played()
    found.sandbox = played  # type: ignore[assignment]
    return found, played


async def test_a_search_is_asked_once_for_each_way_to_compare_it(
    vectors: tuple[QueryVectors, Played],
) -> None:
    found, played = vectors
    assert await found.text("a  red\ncar ") == "v1"
    assert await found.text(" a red car") == "v1"
    assert await found.look("a red car") == "v2"
    assert await found.text("a red car", "old") == "v3"
    assert await found.look("a red car", "old") == "v4"
    assert [await found.look("a red car"), await found.text("a red car")] == ["v2", "v1"]
    asked = {"query": "a red car", "look": False}
    assert played.asked == [
        asked,
        {**asked, "look": True},
        {**asked, "model": "old"},
        {**asked, "look": True, "model": "old"},
    ]
    await found.text("x" * 1_001)
    assert played.asked[-1]["query"] == "x" * 1_000


async def test_the_search_that_was_used_longest_ago_is_forgotten(
    vectors: tuple[QueryVectors, Played], monkeypatch: pytest.MonkeyPatch
) -> None:
    found, played = vectors
    monkeypatch.setattr(query_vectors, "REMEMBERED", 2)
    for query in ("a", "b", "a", "b", "a", "c", "a", "b"):
        await found.text(query)
    assert [one["query"] for one in played.asked] == ["a", "b", "c", "b"]


@pytest.mark.parametrize(
    ("end", "says", "fix"),
    [
        (RetryLaterError("no", fix="mend it"), "a vector: no$", "mend it"),
        (GiveUpError("never", fix="leave it"), "a vector: never$", "leave it"),
        (UnavailableError("closed", fix="open it"), "a vector: closed$", "open it"),
        (OSError("disk"), "a vector: disk$", None),
        ({"vectors": []}, "nothing came back", None),
        ({"vectors": [7]}, "nothing came back", None),
        ({"other": 1}, "nothing came back", None),
    ],
)
async def test_a_search_that_has_no_vector_says_why_and_is_asked_again(
    vectors: tuple[QueryVectors, Played], end: Any, says: str, fix: str | None
) -> None:
    found, played = vectors
    played.end = end
    with pytest.raises(NoVectorsError, match=says) as caught:
        await found.text("a")
    assert (caught.value.fix, caught.value.code) == (fix, "no_vectors")
    played.end = None
    assert await found.text("a") == "v2"


def test_its_child_idles_for_a_while_and_is_bounded(tmp_path: Path) -> None:
    found = QueryVectors(tmp_path, idle_seconds=3).sandbox
    assert (found.processor, found._children.idle_seconds, found._children._spare) == ("embed", 3, 0)
    assert found._scratch == tmp_path / "scratch" / "queries"
