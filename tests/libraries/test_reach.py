"""Can a folder be seen? Whoever asks is told soon, and a folder that hangs is asked once."""

from __future__ import annotations

import asyncio
import threading
from pathlib import Path

import pytest

from mediamill.libraries import reach
from mediamill.libraries.reach import Reach, in_own_thread


async def test_a_folder_is_there_and_a_file_or_what_cannot_be_asked_is_not(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    reaching = Reach()
    assert await reaching.is_there(str(tmp_path)) is True
    for other in ("file", "nothing", "file/inside", "x" * 300):
        assert await reaching.is_there(str(tmp_path / other)) is False


async def test_a_folder_that_hangs_is_away_until_it_answers_and_is_not_asked_meanwhile(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    go_on, asked = threading.Event(), []

    def hang(path: str) -> bool:
        asked.append(path)
        return go_on.wait(60)

    monkeypatch.setattr(reach, "_is_folder", hang)
    reaching = Reach(0.01)
    assert await reaching.is_there("/far") is False
    assert await reaching.is_there("/far") is False
    assert asked == ["/far"]
    go_on.set()
    async with asyncio.timeout(60):
        while not await reaching.is_there("/far"):  # noqa: ASYNC110 - the answer comes from a thread
            await asyncio.sleep(0.005)


async def test_an_answer_is_not_kept_for_the_next_who_asks(tmp_path: Path) -> None:
    folder, reaching = tmp_path / "mounted", Reach()
    for is_there in (False, True, False):
        if is_there:
            folder.mkdir()
        elif folder.exists():
            folder.rmdir()
        assert await reaching.is_there(str(folder)) is is_there


async def test_what_a_thread_of_its_own_finds_or_fails_with_comes_back() -> None:
    assert await in_own_thread(lambda: 7) == 7
    with pytest.raises(ZeroDivisionError):
        await in_own_thread(lambda: 1 // 0)
