"""Every built-in processor keeps to the contract, by the suite that authors of plugins run against their own."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, ClassVar, cast

import pytest
from PIL import Image, ImageDraw

from mediamill.processors import types
from mediamill.processors.contract import Processor, ProcessorInput, ProcessorOutput
from mediamill.processors.models.names import look_name, text_name, vision_name
from mediamill.processors.registry import load_processor, processor_names
from mediamill.settings import Settings
from mediamill.testing.attempt import Attempt
from mediamill.testing.conformance import MediaConformance, ProcessorConformance, RefusalConformance
from tests.media.making import make_film
from tests.processors.document_files import write_pdf

pytestmark = pytest.mark.spec("C25", "C26")


class Named(ProcessorConformance):
    """A processor by the name of its entry point."""

    name: ClassVar[str]

    def the_processor(self) -> Processor:
        cls = type(self)
        if cls not in self._made:
            self._made[cls] = load_processor(self.name, self.mime_types, self.timeout_seconds)
        return self._made[cls]


@pytest.fixture(scope="module", autouse=True)
def _models_are_let_go() -> Iterator[None]:
    yield
    ProcessorConformance._made.clear()
    ProcessorConformance._seen.clear()


class TestImage(Named, MediaConformance):
    name, mime_types, mime_type = "image", types.IMAGE, "image/jpeg"

    def make_sample(self, path: Path) -> None:
        image = Image.new("RGB", (200, 100), "navy")
        ImageDraw.Draw(image).text((20, 40), "HELLO", fill="white", font_size=30)
        image.save(path, "JPEG")


class TestSticker(Named, MediaConformance):
    name, mime_types, mime_type = "sticker", types.STICKER, "image/webp"

    def make_sample(self, path: Path) -> None:
        image = Image.new("RGBA", (128, 128), (0, 0, 0, 0))
        ImageDraw.Draw(image).ellipse((10, 10, 118, 118), fill="gold")
        image.save(path, "WEBP")


class TestModelImage(Named):
    name, mime_types, mime_type = "model-image", ("image/png",), "image/png"

    def make_sample(self, path: Path) -> None:
        image = Image.new("RGB", (200, 100), "navy")
        ImageDraw.Draw(image).text((20, 40), "HELLO", fill="white", font_size=30)
        image.save(path, "PNG")


class TestAudio(Named, MediaConformance):
    name, mime_types, mime_type = "audio", types.AUDIO, "audio/ogg"

    def make_sample(self, path: Path) -> None:
        make_film(path, "ogg", None, "libopus")


class TestTranscode(Named):
    name, mime_types, mime_type = "transcode", ("video.transcode",), "video/mp4"

    def make_sample(self, path: Path) -> None:
        make_film(path, "mp4", "libx264", "aac")


class TestIntake(Named, MediaConformance):
    name, mime_types, mime_type = "intake", ("file.analyse",), None
    payload: ClassVar[dict[str, object]] = {
        "name": "invoice.pdf",
        "fields": [{"name": "total", "type": "amount", "label": "Total", "description": "", "unit": "EUR"}],
    }

    def make_sample(self, path: Path) -> None:
        write_pdf(path, [[(50, 700, "Invoice"), (50, 680, "Total"), (300, 680, "1.234,56 EUR")]])

    def check_result(self, result: Mapping[str, Any]) -> None:
        super().check_result(result)
        assert [found["value"] for found in result["fields"]] == ["1234.56"]


class TestLibraryImage(Named):
    name, mime_types, mime_type = "library-image", ("library.image",), None

    def make_sample(self, path: Path) -> None:
        Image.new("RGB", (1000, 500), "navy").save(path, "JPEG")


class TestLibraryVideo(Named):
    name, mime_types, mime_type = "library-video", ("library.video",), None

    def make_sample(self, path: Path) -> None:
        make_film(path, "mp4", "libx264", "aac", seconds=2)


class TestLibraryVideoByWindows(TestLibraryVideo):
    payload: ClassVar[dict[str, object]] = {"mode": "windows", "sampling_limit": 3}


class FolderOf:
    """Gives a processor the folder of the sample, as jobs about folders do."""

    def __init__(self, processor: Processor) -> None:
        self._processor = processor

    def process(self, given: ProcessorInput) -> ProcessorOutput:
        folder = None if given.file is None else given.file.parent
        return self._processor.process(replace(given, file=folder))


class TestLibraryTag(Named):
    name, mime_types, mime_type = "library-tag", ("library.tag",), None
    payload: ClassVar[dict[str, object]] = {
        "tagger": {"id": 1, "name": vision_name(Settings()).name, "engine": "local"},
        "text_model": {"id": 2, "name": text_name(Settings()).name, "engine": "local"},
        "look_model": {"id": 3, "name": look_name(Settings()).name, "engine": "local"},
        "looks": [{"of": "asset", "id": 7, "file": "preview.webp"}],
    }

    def the_processor(self) -> Processor:
        return cast(Processor, FolderOf(super().the_processor()))

    def attempt(self, place: Path) -> Attempt:
        attempt = Attempt(place, None, self.payload)
        attempt.source = attempt.source.with_name("preview.webp")
        self.make_sample(attempt.source)
        return attempt

    def make_sample(self, path: Path) -> None:
        Image.new("RGB", (300, 200), "navy").save(path, "WEBP")


class TestEmbed(Named):
    name, mime_types, mime_type, needs_file = "embed", ("search.embed",), None, False
    payload: ClassVar[dict[str, object]] = {"query": "a dog in the snow", "look": True}

    def make_sample(self, path: Path) -> None:
        path.write_bytes(b"not looked at")


class TestVideo(Named, MediaConformance):
    name, mime_types, mime_type = "video", types.VIDEO, "video/mp4"

    def make_sample(self, path: Path) -> None:
        make_film(path, "mp4", "libx264", "aac")


class TestDocument(Named, MediaConformance):
    name, mime_types, mime_type = "document", types.DOCUMENT, "text/html"

    def make_sample(self, path: Path) -> None:
        path.write_text("<!doctype html><title>Hello</title><h1>Hello</h1><p>World</p>")


class TestCorrupt(Named, RefusalConformance):
    name, mime_types, mime_type = "corrupt", ("media_corrupt_image",), "media_corrupt_image"

    def make_sample(self, path: Path) -> None:
        path.write_bytes(b"half of a download")


class TestUnsupported(Named, RefusalConformance):
    name, mime_types, mime_type = "unsupported", ("*/*",), "application/x-elf"

    def make_sample(self, path: Path) -> None:
        path.write_bytes(b"\x7fELF" + b"\0" * 60)


class Stub(Named, MediaConformance):
    """Pretends at once."""

    @pytest.fixture(autouse=True)
    def _at_once(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv(f"MEDIAMILL_STUB_{self.name.removeprefix('stub-').upper()}_SECONDS", "0")

    def make_sample(self, path: Path) -> None:
        path.write_bytes(b"anything")


class TestStubImage(Stub):
    name = "stub-image"


class TestStubAudio(Stub):
    name = "stub-audio"


class TestStubVideo(Stub):
    name = "stub-video"


def _all(of: type[ProcessorConformance]) -> Iterator[type[ProcessorConformance]]:
    for cls in of.__subclasses__():
        yield cls
        yield from _all(cls)


def test_every_built_in_processor_is_here() -> None:
    here = {getattr(cls, "name", None) for cls in _all(Named)}
    misbehaving = {"scripted", "scripted-programs", "hostile"}  # on request
    assert set(processor_names()) - misbehaving <= here
