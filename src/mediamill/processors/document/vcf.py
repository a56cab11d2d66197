"""Contact cards: names, numbers, addresses; no photos."""

from __future__ import annotations

from pathlib import Path

from mediamill.processors.document.content_lines import ContentLine, content_lines
from mediamill.processors.document.document_text import (
    DocumentText,
    Limits,
    Part,
    TextRoom,
    one_line,
    plural,
    until_full,
)
from mediamill.processors.document.plain import decode_text, read_bytes

LABELS = {
    "ORG": "Organisation",
    "TITLE": "Position",
    "ROLE": "Role",
    "TEL": "Phone",
    "EMAIL": "Mail",
    "ADR": "Address",
    "URL": "Web",
    "BDAY": "Birthday",
    "NICKNAME": "Nickname",
    "NOTE": "Note",
}
QUIET_TYPES = {"pref", "internet", "voice", "x-internet"}
CARD_LINES = 200


def read_vcf(path: Path, limits: Limits) -> DocumentText:
    """A file of contacts."""
    document = DocumentText("vcf", unit="contact", count=0)
    room = TextRoom(limits)
    card: list[ContentLine] = []
    with until_full(document):
        for line in content_lines(decode_text(read_bytes(path, limits, document))):
            if line.name == "BEGIN":
                card = []
            elif line.name == "END":
                document.count = (document.count or 0) + 1
                if card and document.count <= limits.entries:
                    document.parts.append(Part("", room.take(_card_text(card))))
                card = []
            elif len(card) < CARD_LINES:
                card.append(line)
    if (count := document.count or 0) > limits.entries:
        document.warn(f"{plural(count - limits.entries, 'contact')} not read")
    return document


def _card_text(card: list[ContentLine]) -> str:
    lines = [f"Contact: {_name(card)}"]
    for line in card:
        if line.name in LABELS and (value := one_line(_value(line), 1_000)):
            kinds = [kind.lower() for kind in line.parameters.get("TYPE", "").split(",")[:5] if kind]
            told = ", ".join(kind for kind in kinds if kind not in QUIET_TYPES)
            lines.append(f"{LABELS[line.name]}{f' ({one_line(told, 50)})' if told else ''}: {value}")
    return "\n".join(lines)


def _name(card: list[ContentLine]) -> str:
    for line in card:
        if line.name == "FN" and line.text:
            return one_line(line.text)
    for line in card:
        if line.name == "N":
            family, given, middle, before, after = [*line.items, "", "", "", "", ""][:5]
            return one_line(" ".join(filter(None, (before, given, middle, family, after)))) or "(no name)"
    return "(no name)"


def _value(line: ContentLine) -> str:
    if line.name in ("ADR", "ORG"):
        return ", ".join(filter(None, line.items))
    return line.text.removeprefix("tel:").removeprefix("mailto:")
