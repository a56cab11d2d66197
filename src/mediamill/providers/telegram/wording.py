"""What mediamill says in words: of messages that are no text, and to people about their images."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from mediamill.conversations.model import clean_text

LONGEST_LINE = 1_000
LONGEST_QUOTE = 300

GREETING = "Hello! Write to me, or send images, voice notes, videos or documents."
FORGOTTEN = "{images} forgotten."
NOTHING_WAITS = "No images are waiting."
TOO_LARGE = "This file is too large: Telegram hands files of at most 20 MB to bots. Send a smaller one."


def plural(count: int, noun: str) -> str:
    """1 image, 2 images."""
    return f"{count} {noun}{'' if count == 1 else 's'}"


def acknowledgement(saved: int, waiting: int, refused: int, failed: int, reason: str | None) -> str:
    """To somebody who sent images without a text. `waiting`: with all that came before."""
    parts = []
    if saved:
        others = f" ({waiting} in all)" if waiting > saved else ""
        parts.append(f"Saved {plural(saved, 'image')}{others}. Send text instructions.")
    if refused:
        parts.append(
            f"{plural(refused, 'image')} not saved (image_buffer_limit_exceeded): at most 10 images with 50 MiB wait "
            "for a text. Send the text, or /forget to drop those that wait; then send the rest."
        )
    if failed:
        why = (reason or "it could not be downloaded").rstrip(".")
        parts.append(f"{plural(failed, 'image')} not saved: {why}.")
    return "\n".join(parts)


def describe(message: Mapping[str, Any]) -> str:
    """One line in brackets for what is neither text nor a file; empty for what nobody said."""
    for name, words in (
        ("venue", _venue),
        ("location", _location),
        ("contact", _contact),
        ("poll", _poll),
        ("dice", _dice),
        ("sticker", _sticker),
        ("story", lambda _: ("Story",)),
        ("game", lambda found: ("Game", found.get("title"))),
    ):
        found = message.get(name)
        if isinstance(found, dict):
            return _bracket(*words(found))
    return ""


def in_context(message: Mapping[str, Any], text: str) -> str:
    """With what it answers, and whom it comes from, where that is not the sender. No text needs no context."""
    before = (_forwarded(message), _quoted(message))
    return "\n".join(filter(None, (*before, text))) if text else ""


def _quoted(message: Mapping[str, Any]) -> str:
    answered, quote = message.get("reply_to_message"), message.get("quote")
    said = quote.get("text") if isinstance(quote, dict) else None
    if not said and isinstance(answered, dict):
        said = answered.get("text") or answered.get("caption")
    line = _line(said)
    return f"[In reply to: {line[:LONGEST_QUOTE]}{'…' if len(line) > LONGEST_QUOTE else ''}]" if line else ""


def _forwarded(message: Mapping[str, Any]) -> str:
    origin = message.get("forward_origin")
    if not isinstance(origin, dict):
        return ""
    who = origin.get("sender_user") or origin.get("sender_chat") or origin.get("chat")
    names = (who.get("first_name"), who.get("last_name"), who.get("title")) if isinstance(who, dict) else ()
    return _bracket("Forwarded from", *(names or (origin.get("sender_user_name"),)), between=" ")


def _location(found: Mapping[str, Any]) -> tuple[Any, ...]:
    what = "Live location" if found.get("live_period") else "Location"
    return what, _place(found)


def _venue(found: Mapping[str, Any]) -> tuple[Any, ...]:
    place = found.get("location")
    return (
        "Location",
        found.get("title"),
        found.get("address"),
        _place(place if isinstance(place, dict) else {}),
    )


def _place(found: Mapping[str, Any]) -> str:
    degrees = (found.get("latitude"), found.get("longitude"))
    return ", ".join(f"{round(each, 6)}" for each in degrees if isinstance(each, int | float))


def _contact(found: Mapping[str, Any]) -> tuple[Any, ...]:
    name = " ".join(_line(found.get(key)) for key in ("first_name", "last_name"))
    return "Contact", name, found.get("phone_number")


def _poll(found: Mapping[str, Any]) -> tuple[Any, ...]:
    options = found.get("options")
    answers = (
        [each.get("text") for each in options if isinstance(each, dict)] if isinstance(options, list) else []
    )
    return "Poll", found.get("question"), *(f"({_line(answer)})" for answer in answers[:20])


def _dice(found: Mapping[str, Any]) -> tuple[Any, ...]:
    value = found.get("value")
    return "Dice", found.get("emoji"), str(value) if isinstance(value, int) else None


def _sticker(found: Mapping[str, Any]) -> tuple[Any, ...]:
    return "Sticker", found.get("emoji")


def _bracket(what: str, *parts: Any, between: str = "; ") -> str:
    line = between.join(filter(None, map(_line, parts)))[:LONGEST_LINE]
    return f"[{what}: {line}]" if line else f"[{what}]"


def _line(text: Any) -> str:
    return " ".join(clean_text(text).split()) if isinstance(text, str) else ""
