"""How tools name a thing: `asset:12`, `video:my-film`, `file:34`, `message:shop/0b1c…`. Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from mediamill.errors import InvalidError

_FORMS = {
    "asset": re.compile(r"[0-9]{1,18}"),
    "video": re.compile(r"[0-9A-Za-z-]{1,100}"),
    "file": re.compile(r"[0-9]{1,18}"),
    "message": re.compile(r"[0-9A-Za-z_.-]{1,100}/[0-9A-Za-z_-]{1,128}"),
}


class BadReferenceError(InvalidError):
    """That names nothing."""

    code = "bad_reference"


@dataclass(frozen=True, slots=True)
class Reference:
    """`of`: asset, video, file or message."""

    of: str
    id: str

    def __str__(self) -> str:
        """As it is written."""
        return f"{self.of}:{self.id}"


def read_reference(text: str) -> Reference:
    """As `search` gives it."""
    of, _, id_ = text.strip().partition(":")
    form = _FORMS.get(of)
    if form is None or not form.fullmatch(id_):
        raise BadReferenceError(
            f"{text[:100]!r} is no reference",
            fix="take the `reference` of a hit of `search`, like asset:12, video:my-film or file:34",
        )
    return Reference(of, id_)


def reference_of(hit: Mapping[str, Any]) -> str:
    """Of something that was found. Entries are about a subject; that of a file has its project in front."""
    if hit["of"] == "asset":
        return f"asset:{hit['id']}"
    subject = str(hit["place"])
    return f"{hit['source']}:{subject.rpartition('/')[2] if hit['source'] == 'file' else subject}"
