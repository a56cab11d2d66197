"""Stickers, still and animated: what they show, what they say, and the emoji that their maker gave them."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from mediamill.media.exif import Exif
from mediamill.processors.image import ImageVisionProcessor, describe_image
from mediamill.processors.image.examine import Examined, examine
from mediamill.processors.image.wording import Seen, describe
from mediamill.processors.result import ProcessingResult

STICKER_SIDE = 512  # the size that chat networks ask for
STICKER_TAG = 0x5741  # WhatsApp's JSON in the EXIF of a WebP
MOST_EMOJI, MOST_CHARACTERS = 10, 100


@dataclass(frozen=True, slots=True)
class StickerNote:
    """What the maker of a sticker wrote into it."""

    emoji: tuple[str, ...] = ()
    pack: str | None = None
    publisher: str | None = None

    def __bool__(self) -> bool:
        return bool(self.emoji or self.pack or self.publisher)


class StickerProcessor(ImageVisionProcessor):
    """WebP files that chats call stickers; one that is really a photo is told as an image."""

    def process_media(
        self,
        file_path: Path,
        mime_type: str,
        caption: str,
        media_metadata: Mapping[str, Any],  # noqa: ARG002 - the contract's
    ) -> ProcessingResult:
        """Examine it and tell it as what it is."""
        self.given.report(step="looking at the sticker", percent=0)
        examined = examine(file_path, mime_type, caption, self.eyes)
        note = read_note(examined.picture.facts.exif)
        if not is_sticker(examined, note):
            return self.result(examined, describe_image(examined))
        result = self.result(examined, describe_sticker(examined, note))
        told = {"emoji": list(note.emoji), "pack": note.pack, "publisher": note.publisher}
        return replace(result, facts={**result.facts, "sticker": told})


def is_sticker(examined: Examined, note: StickerNote) -> bool:
    """Small, or cut out, or moving, or marked as one; a large opaque picture is a photo."""
    source = examined.picture.facts
    small = max(source.width, source.height) <= STICKER_SIDE
    return bool(note) or small or source.has_alpha or examined.frames > 1


def describe_sticker(examined: Examined, note: StickerNote) -> str:
    """`Sticker 😀: …`."""
    sight = examined.sight
    told = describe(
        Seen(
            tags=sight.tags,
            description=sight.description,
            lines=examined.lines,
            what="sticker",
            truncated=examined.picture.facts.truncated,
        )
    )
    kind = "Animated sticker" if examined.frames > 1 else "Sticker"
    return f"{kind}{' ' + ' '.join(note.emoji) if note.emoji else ''}: {told}"


def read_note(exif: Exif) -> StickerNote:
    """The JSON that WhatsApp's sticker makers add; nonsense is no note."""
    try:
        told = json.loads((exif.raw(STICKER_TAG) or b"").rstrip(b"\0").decode("utf-8"))
    except (ValueError, RecursionError):
        return StickerNote()
    if not isinstance(told, dict):
        return StickerNote()
    emoji = told.get("emojis")
    chosen = [_clean(one, 16) for one in emoji[:MOST_EMOJI]] if isinstance(emoji, list) else []
    return StickerNote(
        tuple(one for one in chosen if one),
        _clean(told.get("sticker-pack-name"), MOST_CHARACTERS),
        _clean(told.get("sticker-pack-publisher"), MOST_CHARACTERS),
    )


def _clean(value: object, limit: int) -> str | None:
    """A line of text; the joiner inside an emoji stays."""
    if not isinstance(value, str):
        return None
    kept = "".join(c if c.isprintable() or c in "\u200d\ufe0f" else " " for c in value[: limit * 2])
    return " ".join(kept.split())[:limit] or None
