"""Searches to vectors in a child of the server: asked once, ended when idle, and an error that says what to do."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from mediamill.processors.models.names import text_name
from mediamill.search.vectors import read_vector
from mediamill.settings import Settings
from mediamill.worker.query_vectors import REMEMBERED, NoVectorsError, QueryVectors
from tests.worker.harness import wait_until

pytestmark = pytest.mark.spec("L12")


@asynccontextmanager
async def started(data: Path, idle_seconds: float = 300) -> AsyncIterator[QueryVectors]:
    vectors = QueryVectors(data, idle_seconds=idle_seconds)
    await vectors.start()
    try:
        yield vectors
    finally:
        await vectors.close()


async def test_a_search_becomes_two_vectors_and_the_same_search_is_not_asked_again(tmp_path: Path) -> None:
    async with started(tmp_path) as vectors:
        text, look = await vectors.text("a dog  in the snow"), await vectors.look("a dog in the snow")
        assert text != look
        for vector in (text, look):
            assert len(read_vector(vector)) == 384
        await vectors.sandbox.close()  # nobody is there to be asked
        assert await vectors.text("a dog in the snow") == text
        assert await vectors.look(" a dog in the snow ") == look
        with pytest.raises(NoVectorsError):
            await vectors.text("something else")


async def test_the_child_ends_when_nobody_searches(tmp_path: Path) -> None:
    async with started(tmp_path, idle_seconds=0.2) as vectors:
        await vectors.text("a dog")
        await wait_until(lambda: not vectors.sandbox._children, "the child has ended")
        assert await vectors.text("a cat")


async def test_missing_models_are_said_with_what_to_do(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MEDIAMILL_MODELS", str(tmp_path / "none"))
    async with started(tmp_path) as vectors:
        with pytest.raises(NoVectorsError, match=r"minilm-l6-v2.* is not installed") as refused:
            await vectors.text("a dog")
    assert refused.value.fix is not None
    assert "mediamill models fetch" in refused.value.fix


async def test_so_many_searches_are_remembered_and_no_more(tmp_path: Path) -> None:
    vectors = QueryVectors(tmp_path)
    vectors._known.update({(False, None, f"search {number}"): "AAAA" for number in range(REMEMBERED + 1)})
    await vectors.text("search 0")
    assert len(vectors._known) == REMEMBERED
    assert (False, None, "search 0") in vectors._known
    assert (False, None, "search 1") not in vectors._known
    await vectors.text("search 2")
    assert len(vectors._known) == REMEMBERED, "nothing is forgotten before there is more"


@pytest.mark.spec("L11")
async def test_a_model_that_was_used_before_still_turns_searches_into_vectors(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = text_name(Settings()).name
    async with started(tmp_path / "local") as vectors:
        wanted = await vectors.text("a dog")
    monkeypatch.setenv("MEDIAMILL_EMBEDDING", "openai")
    async with started(tmp_path / "openai") as vectors:
        assert await vectors.text("a dog", model=before) == wanted
        with pytest.raises(NoVectorsError, match=r"somebody@1"):
            await vectors.text("a dog", model="somebody@1")
