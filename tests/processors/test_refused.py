"""Media that never become text are told as the specification words it."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from mediamill.processors.contract import (
    Processor,
    ProcessorInput,
    ProcessorOutput,
    RefusedMediaError,
    WrongTypeError,
)
from mediamill.processors.refused import CorruptMediaProcessor, UnsupportedMediaProcessor

JPEG = b"\xff\xd8\xff\xe0" + b"\0" * 100
NOBODYS = b"\x7fELF" + b"\0" * 100


def run(
    processor: Processor, mime_type: str | None, file: Path | None, payload: Mapping[str, Any] | None = None
) -> ProcessorOutput:
    folder = Path("/nowhere")  # neither of the two may write anything
    return processor.process(
        ProcessorInput(payload or {}, mime_type, file, folder, None, 1, lambda *_, **__: None)
    )


def corrupt() -> CorruptMediaProcessor:
    return CorruptMediaProcessor([f"media_corrupt_{kind}" for kind in ("image", "sticker")], 10)


def unsupported() -> UnsupportedMediaProcessor:
    return UnsupportedMediaProcessor(["*/*"], 10)


@pytest.mark.spec("C27")
@pytest.mark.parametrize("kind", ["image", "video", "audio", "document", "sticker"])
def test_media_that_could_not_be_had_are_told_as_corrupted(kind: str) -> None:
    with pytest.raises(RefusedMediaError) as refused:
        run(corrupt(), f"media_corrupt_{kind}", None)
    assert refused.value.notice == f"[Corrupted {kind} media could not be downloaded]"
    assert refused.value.message == f"download failed — {kind} corrupted"


@pytest.mark.spec("C27")
def test_the_notice_of_corrupted_media_stands_before_the_caption(tmp_path: Path) -> None:
    with pytest.raises(RefusedMediaError) as refused:
        run(corrupt(), "media_corrupt_image", tmp_path / "never-came", {"caption": "our new house"})
    assert refused.value.notice == "[Corrupted image media could not be downloaded] our new house"


@pytest.mark.spec("C28")
def test_media_of_other_types_are_told_as_unsupported(tmp_path: Path) -> None:
    (tmp_path / "program").write_bytes(NOBODYS)
    with pytest.raises(RefusedMediaError) as refused:
        run(unsupported(), "application/x-elf", tmp_path / "program", {"caption": "run me"})
    assert refused.value.notice == "[Unsupported application/x-elf media] run me"
    assert refused.value.message == "unsupported mime type: application/x-elf"


@pytest.mark.spec("C28")
def test_unsupported_media_need_no_file(tmp_path: Path) -> None:
    with pytest.raises(RefusedMediaError) as refused:
        run(unsupported(), "application/x-thing", tmp_path / "gone")
    assert refused.value.notice == "[Unsupported application/x-thing media]"


@pytest.mark.spec("C28", "C29")
def test_a_file_of_a_served_type_is_sent_to_its_pool_once(tmp_path: Path) -> None:
    (tmp_path / "photo").write_bytes(JPEG)
    with pytest.raises(WrongTypeError) as wrong:
        run(unsupported(), "application/x-thing", tmp_path / "photo")
    assert wrong.value.mime_type == "image/jpeg"
    with pytest.raises(RefusedMediaError) as refused:  # no pool took it, so it came back
        run(unsupported(), "image/jpeg", tmp_path / "photo", {"claimed_mime_type": "application/x-thing"})
    assert refused.value.notice == "[Unsupported image/jpeg media]"


@pytest.mark.spec("C28", "C29")
@pytest.mark.parametrize("claimed", ["image/jpeg", "nonsense", "a/b\nc/d", None])
def test_a_claim_that_the_bytes_do_not_bear_out_is_not_repeated(tmp_path: Path, claimed: str | None) -> None:
    (tmp_path / "noise").write_bytes(b"\0\1\2\3" * 50)
    with pytest.raises(RefusedMediaError) as refused:
        run(
            unsupported(),
            "application/octet-stream",
            tmp_path / "noise",
            {"claimed_mime_type": claimed or ""},
        )
    assert refused.value.notice == "[Unsupported application/octet-stream media]"
