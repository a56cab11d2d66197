"""The stubs read nothing, but go the whole way."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from mediamill.processors.contract import ProcessorInput, RefusedMediaError
from mediamill.processors.stub import (
    StubAudioProcessor,
    StubImageProcessor,
    StubProcessor,
    StubVideoProcessor,
)

STUBS = {"image": StubImageProcessor, "audio": StubAudioProcessor, "video": StubVideoProcessor}
MakeStub = Callable[[Sequence[str], float], StubProcessor]


def given(file: Path, **payload: str) -> ProcessorInput:
    return ProcessorInput(payload, None, file, file.parent, None, 1, lambda *_, **__: None)


@pytest.fixture(autouse=True)
def _no_waiting(monkeypatch: pytest.MonkeyPatch) -> None:
    for kind in STUBS:
        monkeypatch.setenv(f"MEDIAMILL_STUB_{kind.upper()}_SECONDS", "0")


@pytest.mark.spec("C26")
@pytest.mark.parametrize("kind", STUBS)
def test_a_stub_tells_the_guid_of_the_message(kind: str, tmp_path: Path) -> None:
    (tmp_path / "staged-1").write_text("anything")
    made: MakeStub = STUBS[kind]
    stub = made([], 60)
    said = f"[Transcripted {kind} multimedia message with guid="
    assert stub.process(given(tmp_path / "staged-1", guid="7f")).result["content"] == f"{said}'7f']"
    assert stub.process(given(tmp_path / "staged-1")).result["content"] == f"{said}'staged-1']"


@pytest.mark.spec("C26")
def test_a_stub_opens_the_file(tmp_path: Path) -> None:
    with pytest.raises(RefusedMediaError, match="not there"):
        StubImageProcessor([], 60).process(given(tmp_path / "gone"))


@pytest.mark.spec("C26")
def test_the_stubs_take_the_time_that_is_set(monkeypatch: pytest.MonkeyPatch) -> None:
    for kind in STUBS:
        monkeypatch.delenv(f"MEDIAMILL_STUB_{kind.upper()}_SECONDS")
    stubs: list[MakeStub] = [StubImageProcessor, StubAudioProcessor, StubVideoProcessor]
    assert [stub([], 60).seconds() for stub in stubs] == [5, 10, 60]
    monkeypatch.setenv("MEDIAMILL_STUB_VIDEO_SECONDS", "1.5")
    assert StubVideoProcessor([], 60).seconds() == 1.5
