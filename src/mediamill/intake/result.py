"""What a processor says of a file, checked: it may come from any worker. What makes no sense is left out, and a result
without a text or a kind is none."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from mediamill.db.connection import Connection
from mediamill.engine.model import Moved, without_nul
from mediamill.errors import RetryLaterError
from mediamill.intake.model import LABEL_CHARACTERS, TYPES, home_of_analysis, id_of
from mediamill.intake.values import VALUE_CHARACTERS, BadValueError, canonical
from mediamill.storage.choose import Place
from mediamill.storage.read import read_text

KINDS = ("document", "image", "unsupported")
MOST_PAGES = 2_000
MOST_PER_FIELD, MOST_UNMAPPED = 3, 50
FACTS_CHARACTERS, SUMMARY_CHARACTERS, LINE_CHARACTERS = 50_000, 5_000, 500
PAGE_CHARACTERS, TEXTS_CHARACTERS = 100_000, 1_000_000
PAGES_FILE, PAGES_FILE_BYTES = "pages.json", 32 << 20
_IMAGE = re.compile(r"page-[0-9]{5}\.webp")
_MIME = re.compile(r"[a-z0-9.+-]{1,60}/[a-z0-9.+-]{1,100}", re.ASCII)


class BadResultError(RetryLaterError):
    """The result of the analysis makes no sense."""

    code = "bad_result"


@dataclass(frozen=True, slots=True)
class Analysed:
    """A result that can be kept."""

    text: str
    summary: str
    mime_type: str | None
    told: dict[str, Any]
    output: str | None
    page_texts: list[dict[str, Any]] = field(default_factory=list)


async def read_result(connection: Connection, place: Place, job: Moved) -> Analysed:
    """Of this job; BadResultError if it is none."""
    result = job.result
    if not isinstance(result, Mapping) or not isinstance(result.get("content"), str):
        raise BadResultError("the result has no text")
    if result.get("kind") not in KINDS:
        raise BadResultError(f"the result is of no kind that is known: {str(result.get('kind'))[:50]!r}")
    output, files = _output(job)
    pages = _pages(result.get("pages"), files)
    mime_type = result.get("mime_type")
    told = {
        "kind": result["kind"],
        "rounds": job.payload.get("rounds", 1),
        "unsupported": _line(result.get("unsupported")) or None,
        "pages": pages,
        "fields": _fields(job.payload, result.get("fields")),
        "unmapped": _unmapped(result.get("unmapped")),
        "tags": _small(result.get("tags"), list),
        "models": [_line(model) for model in _small(result.get("models"), list)][:20],
        "facts": _small(result.get("facts"), dict),
        "thumbnail": "thumbnail.jpg" in files,
    }
    return Analysed(
        _text(result["content"]),
        _text(result.get("summary"))[:SUMMARY_CHARACTERS],
        mime_type if isinstance(mime_type, str) and _MIME.fullmatch(mime_type) else None,
        told,
        output,
        await _page_texts(connection, place, f"{output}/{PAGES_FILE}")
        if output and PAGES_FILE in files
        else [],
    )


def _output(job: Moved) -> tuple[str | None, set[str]]:
    """The folder of this very job, and the names in it; a result that names files elsewhere is none."""
    files = job.result.get("files")
    if not isinstance(files, Mapping) or not files:
        return None, set()
    home = re.escape(home_of_analysis(id_of(job.subject_id)))
    own = re.compile(rf"({home}-{job.job_id}-[0-9]{{1,19}})/([0-9A-Za-z_.-]+)", re.ASCII)
    found = [
        own.fullmatch(str(one.get("path") if isinstance(one, Mapping) else "")) for one in files.values()
    ]
    folders = {one[1] if one else None for one in found}
    if None in folders or len(folders) != 1:
        raise BadResultError("the result names files that are not its own")
    return found[0][1] if found[0] else None, {one[2] for one in found if one}


def _pages(given: Any, files: set[str]) -> list[dict[str, Any]]:
    pages = []
    for page in _small(given, list, MOST_PAGES * 200)[:MOST_PAGES]:
        if not isinstance(page, Mapping) or not _is_count(page.get("number")):
            continue
        image = page.get("image")
        pages.append(
            {
                "number": page["number"],
                "width": page.get("width") if _is_count(page.get("width")) else None,
                "height": page.get("height") if _is_count(page.get("height")) else None,
                "image": image
                if isinstance(image, str) and _IMAGE.fullmatch(image) and image in files
                else None,
                "label": _line(page.get("label")) or f"Page {page['number']}",
            }
        )
    return pages


def _fields(payload: Mapping[str, Any], given: Any) -> list[dict[str, Any]]:
    """Of fields that were asked for, with values of their type, at most three of each."""
    types = {one["name"]: one["type"] for one in payload.get("fields", []) if isinstance(one, Mapping)}
    kept: list[dict[str, Any]] = []
    for one in given if isinstance(given, list) else []:
        name = one.get("name") if isinstance(one, Mapping) else None
        if name not in types or sum(other["name"] == name for other in kept) >= MOST_PER_FIELD:
            continue
        try:
            value = canonical(types[name], str(one.get("value")) if one.get("value") is not None else "")
        except BadValueError:
            continue
        if any((other["name"], other["value"]) == (name, value) for other in kept):
            continue
        kept.append({"name": name, **_found(one, value)})
    return kept


def _unmapped(given: Any) -> list[dict[str, Any]]:
    """Values of labels that nobody asked for; each label once."""
    kept: dict[str, dict[str, Any]] = {}
    for one in given[:MOST_UNMAPPED] if isinstance(given, list) else []:
        if not isinstance(one, Mapping) or one.get("type") not in TYPES:
            continue
        label = _line(one.get("name"), LABEL_CHARACTERS)
        try:
            value = canonical(str(one["type"]), _text(one.get("value")))
        except BadValueError:
            continue
        if label and label.isprintable():
            kept.setdefault(label.casefold(), {"label": label, "type": one["type"], **_found(one, value)})
    return list(kept.values())


def _found(one: Mapping[str, Any], value: str) -> dict[str, Any]:
    return {
        "value": value,
        "raw": _line(one.get("raw"), VALUE_CHARACTERS),
        "unit": _line(one.get("unit"), 50),
        "confidence": _share(one.get("confidence")) or 0.0,
        "page": one.get("page") if _is_count(one.get("page")) else None,
        "box": _box(one.get("box")),
        "quote": _line(one.get("quote")),
    }


async def _page_texts(connection: Connection, place: Place, name: str) -> list[dict[str, Any]]:
    """What is on each page, for the search; all that is too long is cut."""
    try:
        given = json.loads(await read_text(connection, place, name, PAGES_FILE_BYTES) or "[]")
    except (ValueError, RecursionError):
        return []
    texts, left = [], TEXTS_CHARACTERS
    for page in given[:MOST_PAGES] if isinstance(given, list) else []:
        if isinstance(page, Mapping) and _is_count(page.get("number")) and left > 0:
            text = _text(page.get("text"))[: min(left, PAGE_CHARACTERS)]
            left -= len(text)
            texts.append({"number": page["number"], "label": _line(page.get("label")), "text": text})
    return texts


def _box(given: Any) -> list[float] | None:
    """Left, top, right, bottom as shares of the page."""
    shares = [_share(one) for one in given] if isinstance(given, list) and len(given) == 4 else []
    left, top, right, bottom = shares or (None,) * 4
    if left is None or top is None or right is None or bottom is None or left > right or top > bottom:
        return None
    return [left, top, right, bottom]


def _share(given: Any) -> float | None:
    if isinstance(given, bool) or not isinstance(given, int | float) or not math.isfinite(given):
        return None
    return min(1.0, max(0.0, float(given)))


def _is_count(given: Any) -> bool:
    return isinstance(given, int) and not isinstance(given, bool) and 0 < given < 1_000_000


def _small(given: Any, kind: type, most: int = FACTS_CHARACTERS) -> Any:
    """A list or an object, without what the database refuses; too much, or something else, is nothing."""
    try:
        text = without_nul(json.dumps(given, allow_nan=False).encode()).decode()
    except (TypeError, ValueError, RecursionError):
        return kind()
    return json.loads(text) if isinstance(given, kind) and len(text) <= most else kind()


def _line(given: Any, most: int = LINE_CHARACTERS) -> str:
    return " ".join(_text(given).split())[:most]


def _text(given: Any) -> str:
    text = given if isinstance(given, str) else "" if given is None else str(given)
    return text.encode("utf-8", "replace").decode().replace("\0", "")
