"""Which mime types the built-in pools serve. What is in none of these lists is unsupported.

The pools are sown with the same patterns by the database's migrations; a user may change his pools later.
"""

from __future__ import annotations

from typing import Literal

AUDIO = ("audio/*",)
VIDEO = ("video/*",)
IMAGE = ("image/*",)  # SVG too: it is drawn, then looked at
STICKER = ("image/webp",)
DOCUMENT = (
    "application/pdf",
    "application/rtf",
    "application/json",
    "application/xml",
    "application/epub+zip",
    "application/vnd.openxmlformats-officedocument.wordprocessingml.document",
    "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet",
    "application/vnd.openxmlformats-officedocument.presentationml.presentation",
    "application/vnd.oasis.opendocument.text",
    "application/vnd.oasis.opendocument.spreadsheet",
    "application/vnd.oasis.opendocument.presentation",
    "application/msword",
    "application/vnd.ms-excel",
    "application/vnd.ms-powerpoint",
    "application/x-ooxml-protected",  # with a password: refused there, with the right reason
    "message/rfc822",
    "text/*",
)
SERVED = frozenset((*AUDIO, *VIDEO, *IMAGE, *STICKER, *DOCUMENT))

Kind = Literal["image", "audio", "video", "document", "other"]


def is_served(mime_type: str) -> bool:
    """Does one of the built-in pools take files of this type?"""
    return bool(SERVED & {mime_type, f"{mime_type.partition('/')[0]}/*"})


def kind_of(mime_type: str) -> Kind:
    """The word for files of this type."""
    major = mime_type.partition("/")[0]
    if major in ("image", "audio", "video"):
        return major  # type: ignore[return-value]
    return "document" if is_served(mime_type) else "other"
