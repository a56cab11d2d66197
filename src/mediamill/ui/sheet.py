"""What the review page shows: proposals by field, the page that one of them is on, and its place there. Pure."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from mediamill.intake.model import PERSON
from mediamill.processors.intake.units import is_other_unit

SURE, LIKELY = 0.85, 0.6
MARGIN = 0.6  # per cent of the page, around a marked place
SHOWN_CHARACTERS = 20_000  # of the text of a page
Proposal = dict[str, Any]
Group = dict[str, Any]


def groups_of(fields: Sequence[dict[str, Any]], proposals: Sequence[Proposal]) -> list[Group]:
    """Proposals by field, in the order of the catalog; those of fields that it had before come last."""
    known = {field["name"]: field for field in fields}
    old = dict.fromkeys(one["field"] for one in proposals if one["field"] not in known)
    gone = [{"name": name, "label": name, "type": "text", "unit": "", "description": ""} for name in old]
    return [
        {
            "field": field,
            "is_known": field["name"] in known,
            "proposals": [_told(one, field) for one in proposals if one["field"] == field["name"]],
            "is_settled": any(
                one["state"] == "accepted" for one in proposals if one["field"] == field["name"]
            ),
        }
        for field in (*fields, *gone)
    ]


def is_open(proposal: Proposal, group: Group) -> bool:
    """Whether somebody should look at it: nothing is said to it, nor to another value of its field."""
    return proposal["state"] == "pending" and not group["is_settled"]


def choose(groups: Sequence[Group], wanted: int | None, page: int | None) -> Proposal | None:
    """The one that was asked for; else the first that is open on the page, or at all."""
    listed = [(one, group) for group in groups for one in group["proposals"]]
    named: list[Proposal] = [one for one, _ in listed if one["id"] == wanted]
    if named:
        return named[0]
    here: list[Proposal] = [one for one, _ in listed if page is None or one["page"] == page]
    opened = [one for one, group in listed if is_open(one, group) and one in here]
    if opened or page is not None:
        return opened[0] if opened else None
    return here[0] if here else None


def make_sheet(
    file: dict[str, Any], texts: Sequence[dict[str, Any]], chosen: Proposal | None, page: int | None
) -> dict[str, Any] | None:
    """The page to be seen: a picture with marked places, or its text with the quote marked. None: it has none."""
    pages = file["pages"] or [
        {"number": text["number"], "label": text["label"], "image": None} for text in texts
    ]
    numbers = [one["number"] for one in pages]
    if not numbers:
        return None
    wanted = page or (chosen and chosen["page"]) or numbers[0]
    place = numbers.index(wanted) if wanted in numbers else 0
    shown = pages[place]
    here = [one for one in file["proposals"] if one["page"] == shown["number"]]
    text = next((one["text"] for one in texts if one["number"] == shown["number"]), "")
    return {
        "page": shown,
        "count": len(numbers),
        "place": place + 1,
        "previous": numbers[place - 1] if place else None,
        "following": numbers[place + 1] if place + 1 < len(numbers) else None,
        "marks": _marks(here, chosen) if shown.get("image") else [],
        "pieces": [] if shown.get("image") else mark_quote(text[:SHOWN_CHARACTERS], _quote(here, chosen)),
        "is_cut": len(text) > SHOWN_CHARACTERS,
    }


def mark_quote(text: str, quote: str) -> list[tuple[str, bool]]:
    """The text in pieces, each with whether it is the quote; spaces and line ends are all the same."""
    words = [re.escape(word) for word in quote.split()]
    found = re.search(r"\s+".join(words), text, re.IGNORECASE) if words else None
    if found is None:
        return [(text, False)]
    pieces = (
        (text[: found.start()], False),
        (text[found.start() : found.end()], True),
        (text[found.end() :], False),
    )
    return [piece for piece in pieces if piece[0]]


def _quote(here: Sequence[Proposal], chosen: Proposal | None) -> str:
    if chosen is None or chosen["id"] not in [one["id"] for one in here]:
        return ""
    return str(chosen.get("quote") or chosen["raw"] or chosen["value"])


def _marks(here: Sequence[Proposal], chosen: Proposal | None) -> list[dict[str, Any]]:
    """Places in per cent, with a margin; the chosen one last, so that nothing lies over it."""
    marks = []
    for one in here:
        if not one["box"]:
            continue
        left, top, right, bottom = (100 * min(max(side, 0.0), 1.0) for side in one["box"])
        left, top = max(left - MARGIN, 0.0), max(top - MARGIN / 2, 0.0)
        right, bottom = min(right + MARGIN, 100.0), min(bottom + MARGIN / 2, 100.0)
        is_chosen = chosen is not None and one["id"] == chosen["id"]
        marks.append(
            {
                "id": one["id"],
                "is_chosen": is_chosen,
                "state": one["state"],
                "x": left,
                "y": top,
                "width": max(right - left, 0.5),
                "height": max(bottom - top, 0.5),
            }
        )
    return sorted(marks, key=lambda mark: mark["is_chosen"])


def _told(proposal: Proposal, field: dict[str, Any]) -> Proposal:
    """With what is to be read: the value that holds, how sure it is, and which unit was wanted if it has another."""
    edited = proposal["edited_value"]
    sure = proposal["confidence"]
    return {
        **proposal,
        "shown": proposal["value"] if edited is None else edited,
        "is_entered": proposal["origin"] == PERSON,
        "wanted_unit": field["unit"] if is_other_unit(proposal["unit"], field["unit"]) else "",
        "sureness": "sure" if sure >= SURE else "likely" if sure >= LIKELY else "unsure",
    }
