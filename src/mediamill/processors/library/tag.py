"""Tags for libraries: looks at previews and frames that were made before, never at a source.

What is done is told every few looks, so that another attempt does only what is left.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from mediamill.errors import GiveUpError, NotNowError
from mediamill.media.errors import MediaError, MissingMediaError
from mediamill.media.images import load_pixels
from mediamill.processors.contract import ProcessorInput, ProcessorOutput
from mediamill.processors.image.wording import text_blocks
from mediamill.processors.library.meaning import meaning_of
from mediamill.processors.models import choose
from mediamill.processors.models.catalogue import find_model
from mediamill.processors.models.contract import (
    ImageEmbedder,
    Pixels,
    Sight,
    TextEmbedder,
    TextReader,
    VisionModel,
)
from mediamill.processors.models.endpoint import ModelNotSetError
from mediamill.processors.models.in_use import READING
from mediamill.processors.models.names import ModelName, look_name, text_name, vision_name, vision_settings
from mediamill.processors.models.packed import pack_vectors
from mediamill.processors.settings import read_settings

SIDE = 1024  # previews are smaller
TOLD_AT_ONCE = 8  # looks in a report; those that somebody else is paid for are told one by one
MOST_LOOKS, MOST_TAGS, WORDS_CHARACTERS, SAID_CHARACTERS = 200, 50, 2_000, 4_000
_FILE = re.compile(r"(preview\.webp|scene-\d{5}\.jpg|frame-\d{9}\.jpg)", re.ASCII)
_MIME_TYPES = {".webp": "image/webp", ".jpg": "image/jpeg"}


class BadTagRequestError(GiveUpError):
    """The payload of a tag job makes no sense."""

    code = "bad_tag_request"


class OtherModelError(NotNowError):
    """This worker has other models than the job asks for; another may have them."""

    code = "other_model"


@dataclass(frozen=True, slots=True)
class Look:
    """One image to look at, and whose it is."""

    of: str
    id: int
    file: str
    known: str | None = None  # what was said of it before: then only its vectors are wanted, or its text
    wants: tuple[str, ...] = ("meaning", "look")


class LibraryTagger:
    """Made for any tagger that this machine can reach: libraries may ask for different ones."""

    def __init__(self, mime_types: Sequence[str], timeout_seconds: float) -> None:
        del mime_types, timeout_seconds
        self.settings = read_settings()
        beyond = self.settings.openai_url or self.settings.moondream_url
        self.network = bool(beyond) or self.settings.vision != "local" or self.settings.embedding == "openai"
        self._visions: dict[str, VisionModel] = {}

    def process(self, given: ProcessorInput) -> ProcessorOutput:
        """Look at all that is left of what the job names."""
        looks = read_looks(given.payload)
        tagger = self._tagger(given.payload, looks)
        if given.file is None or not given.file.is_dir():
            raise MissingMediaError("the previews are not there (any more)")
        done = _done_before(given.checkpoint, len(looks))
        left = [number for number in range(len(looks)) if number not in done]
        told: list[dict[str, Any]] = []
        paid = tagger.vision is not None and tagger.vision.network
        for numbers in _groups(left, 1 if paid else TOLD_AT_ONCE):
            found = tagger.look_at(given.file, [looks[number] for number in numbers], alone=len(looks) == 1)
            told += found
            done |= set(numbers)
            if len(done) < len(looks):
                percent = 100 * len(done) / len(looks)
                given.report("looking", percent, {"looks": found}, {"done": sorted(done)})
        return ProcessorOutput({"looks": told})

    def _tagger(self, payload: Mapping[str, Any], looks: Sequence[Look]) -> Tagger:
        settings, fresh = self.settings, any(look.known is None for look in looks)
        given_reader = payload.get("reader", "as the settings say")  # jobs of before named none
        _expect(_model(payload, "text_model").name, text_name(settings).name)
        _expect(_model(payload, "look_model").name, look_name(settings).name)
        try:
            return Tagger(
                self._vision(_model(payload, "tagger")) if fresh else None,
                self._reader(given_reader) if fresh or any("read" in look.wants for look in looks) else None,
                choose.text_embedder(),
                choose.image_embedder(),
            )
        except ModelNotSetError as error:  # another worker may know that endpoint
            raise OtherModelError(f"this worker cannot tag: {error}", fix=error.fix) from error

    def _reader(self, asked: Any) -> TextReader | None:
        match asked:
            case {"name": str(name)}:
                _expect(name, find_model(READING).id)
                return choose.text_reader(quick=True)
            case str() if self.settings.library_read_text:
                return choose.text_reader(quick=True)
        return None

    def _vision(self, asked: ModelName) -> VisionModel:
        if asked.engine == "local":
            _expect(asked.name, vision_name(self.settings, "local").name)
        if asked.name not in self._visions:
            self._visions[asked.name] = choose.make_vision(vision_settings(self.settings, asked))
        return self._visions[asked.name]


@dataclass(frozen=True, slots=True)
class Tagger:
    """The models that look, read and compare. `vision`: None if everything was looked at before."""

    vision: VisionModel | None
    reader: TextReader | None
    texts: TextEmbedder
    images: ImageEmbedder

    def look_at(self, folder: Path, looks: Sequence[Look], *, alone: bool) -> list[dict[str, Any]]:
        """What is told of each. One that cannot be read says so, unless it is all that there is."""
        told = [self._look_or_say_why(folder, look, alone=alone) for look in looks]
        meanings = [
            (
                one,
                meaning_of(one["description"], one["tags"], one["text"])
                if look.known is None
                else ". ".join(filter(None, (look.known, one.get("text")))),
            )
            for one, look in zip(told, looks, strict=True)
            if "error" not in one and "meaning" in look.wants
        ]
        meant = [(one, text) for one, text in meanings if text]
        vectors = pack_vectors(self.texts.embed_texts([text for _, text in meant])) if meant else []
        for (one, _), vector in zip(meant, vectors, strict=True):
            one["meaning"] = vector
        return told

    def _look_or_say_why(self, folder: Path, look: Look, *, alone: bool) -> dict[str, Any]:
        whose = {"of": look.of, "id": look.id}
        if not {"look", "read"} & set(look.wants):
            return whose
        try:
            pixels = read_small(folder, look.file)
        except MediaError as error:
            if alone:
                raise
            return {**whose, "error": error.message}
        seen = self._see(pixels) if look.known is None else self._read(pixels) if "read" in look.wants else {}
        vector = {"look": pack_vectors(self.images.embed_images([pixels]))[0]} if "look" in look.wants else {}
        return {**whose, **seen, **vector}

    def _see(self, pixels: Pixels) -> dict[str, Any]:
        assert self.vision is not None
        sight = self.vision.look(pixels)
        read = self._read(pixels)
        return {
            "description": (sight.description or "").strip()[:SAID_CHARACTERS] or None,
            "tags": _tags(sight),
            "text": read["text"],
            "models": list(dict.fromkeys((*sight.models, *read["models"]))),
        }

    def _read(self, pixels: Pixels) -> dict[str, Any]:
        lines = self.reader.read(pixels) if self.reader is not None else []
        models = [self.reader.model] if self.reader is not None and lines else []
        return {"text": "\n".join(text_blocks(lines))[:WORDS_CHARACTERS] or None, "models": models}


def read_small(folder: Path, file: str) -> Pixels:
    """A preview or frame of ours. Its name has no slash: nothing outside of the folder is meant."""
    path = folder / file
    try:
        return load_pixels(path, _MIME_TYPES[path.suffix], SIDE)
    except OSError as error:
        raise MissingMediaError(f"{file} is not there (any more)") from error


def read_looks(payload: Mapping[str, Any]) -> list[Look]:
    """What the job asks for."""
    asked = payload.get("looks")
    if not isinstance(asked, list) or not 0 < len(asked) <= MOST_LOOKS:
        raise BadTagRequestError(f"a job has 1 to {MOST_LOOKS} looks")
    looks = []
    for one in asked:
        match one:
            case {
                "of": str(of),
                "id": int(id_),
                "file": str(file),
                "known": str(text),
                "wants": list(wants),
            } if _FILE.fullmatch(file):
                looks.append(Look(of, id_, file, text, tuple(wants)))
            case {"of": str(of), "id": int(id_), "file": str(file)} if _FILE.fullmatch(file):
                looks.append(Look(of, id_, file))
            case _:
                raise BadTagRequestError(f"this is nothing to look at: {str(one)[:200]}")
    return looks


def _tags(sight: Sight) -> list[dict[str, Any]]:
    return [{"label": tag.label, "score": round(tag.score, 3)} for tag in sight.tags[:MOST_TAGS]]


def _model(payload: Mapping[str, Any], which: str) -> ModelName:
    match payload.get(which):
        case {"name": str(name), "engine": "local" | "openai" | "moondream" | "hub" as engine}:
            return ModelName("vision", engine, name)
    raise BadTagRequestError(f"the job names no {which}")


def _expect(asked: str, own: str) -> None:
    if asked != own:
        raise OtherModelError(f"the job asks for {asked[:200]}; this worker has {own}")


def _done_before(checkpoint: Any, count: int) -> set[int]:
    """What earlier attempts told, and was kept."""
    match checkpoint:
        case {"done": list(done)}:
            return {number for number in done if isinstance(number, int) and 0 <= number < count}
    return set()


def _groups(numbers: Sequence[int], size: int) -> Iterator[Sequence[int]]:
    for first in range(0, len(numbers), size):
        yield numbers[first : first + size]
