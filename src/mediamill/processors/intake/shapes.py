"""Texts that have a shape: IBAN, BIC, VAT id, mail address, phone number, and numbers of things such as invoices."""

from __future__ import annotations

import re
from collections.abc import Callable

from mediamill.processors.intake.found import Found

VALUE_CHARACTERS = 500
NEXT_LABEL = re.compile(r"\s+(?:[A-ZÄÖÜ][\w.äöüß-]{1,20}\s?){1,3}:(?:\s|$)|\s[|•·]\s|\s{3,}|;\s")
IBAN = re.compile(r"\b[A-Z]{2}\d{2}(?: ?[A-Z0-9]){11,30}\b")
BIC = re.compile(r"\b[A-Z]{4}[A-Z]{2}[A-Z0-9]{2}(?:[A-Z0-9]{3})?\b")
VAT_ID = re.compile(
    r"\b(?:ATU ?\d{8}|DE ?\d{3} ?\d{3} ?\d{3}|CHE-?\d{3}\.?\d{3}\.?\d{3}(?: ?MWST| ?TVA)?|GB ?\d{9}"
    r"|FR ?[A-Z0-9]{2} ?\d{9}|NL ?\d{9}B\d{2}|BE ?[01]\d{9}"
    r"|IT ?\d{11}|ES ?[A-Z0-9]\d{7}[A-Z0-9]|PL ?\d{10}|DK ?\d{8}|SE ?\d{12}|LU ?\d{8})\b"
)
EMAIL = re.compile(r"\b[\w.+-]{1,64}@[\w-]{1,63}(?:\.[\w-]{1,63}){1,4}\b")
PHONE = re.compile(r"(?<![\w+])(?:\+|00|0|\()\d?[\d ()/.-]{5,20}\d\b")
IDENTIFIER = re.compile(
    r"[A-Za-z0-9](?:[\w./-]*\w)?(?: (?:[A-Z]{1,4} )?(?=[A-Z0-9/-]*\d)[A-Z0-9][A-Z0-9/-]*)*"
)
SAFE, LIKELY = 1.0, 0.9
FULL_LINE, CUT_LINE = 0.97, 0.85
WITHOUT_DIGIT = 0.4  # a number of something that has none


def find_shapes(text: str, kind: str) -> list[Found]:
    """Values of that kind; of any other kind the text itself."""
    find = SHAPES.get(kind, _plain_text)
    return find(text)


def has_shape(kind: str) -> bool:
    """Can such a value be told from its characters alone?"""
    return kind in ("iban", "vat_id", "email")


def _find_ibans(text: str) -> list[Found]:
    found = []
    for match in IBAN.finditer(text):
        groups = match[0].split(" ")
        for length in range(len(groups), 0, -1):  # what follows may look like one more group
            raw = " ".join(groups[:length])
            if is_iban(raw.replace(" ", "")):
                found.append(Found(raw.replace(" ", ""), match.start(), match.start() + len(raw)))
                break
        else:
            found.append(Found(match[0].replace(" ", ""), match.start(), match.end(), 0.35))
    return found


def is_iban(text: str) -> bool:
    """Do its check digits agree? Of a hundred texts that are none, one would."""
    if not 15 <= len(text) <= 34 or not text.isascii() or not text.isalnum():
        return False
    turned = text[4:] + text[:4]
    return int("".join(str(int(char, 36)) for char in turned)) % 97 == 1


def _find(pattern: re.Pattern[str], sureness: float) -> Callable[[str], list[Found]]:
    return lambda text: [
        Found(" ".join(match[0].split()), match.start(), match.end(), sureness)
        for match in pattern.finditer(text)
    ]


def _find_vat_ids(text: str) -> list[Found]:
    return [
        Found(re.sub(r"\s", "", match[0]), match.start(), match.end(), LIKELY)
        for match in VAT_ID.finditer(text)
    ]


def _find_identifiers(text: str) -> list[Found]:
    """The first words, as far as they look like a number: `2025-0031`, `RE 2025/17`, `SN A12 B7`."""
    start = len(text) - len(text.lstrip(" :#.'\"*"))
    match = IDENTIFIER.match(text, start)
    if match is None:
        return []
    value = match[0]
    if re.fullmatch(r"[A-Za-z]{1,4}", value):  # a word before the number: `RE 17`, or of another kind
        return _two_words(text, match)
    sureness = SAFE if any(char.isdigit() for char in value) else WITHOUT_DIGIT
    return [Found(value, match.start(), match.end(), sureness)]


def _two_words(text: str, first: re.Match[str]) -> list[Found]:
    second = IDENTIFIER.match(text, first.end() + 1)
    if first[0].isupper() and second and any(char.isdigit() for char in second[0]):
        return [Found(f"{first[0]} {second[0]}", first.start(), second.end(), LIKELY)]
    return [Found(first[0], first.start(), first.end(), WITHOUT_DIGIT)]


def _plain_text(text: str) -> list[Found]:
    """All of it, up to where another label or column begins."""
    start = len(text) - len(text.lstrip(" :\"'"))
    cut = NEXT_LABEL.search(text, start)
    end = cut.start() if cut else len(text)
    value = text[start:end].strip(" \"',")[:VALUE_CHARACTERS].strip()
    if not any(char.isalnum() for char in value):
        return []
    return [Found(value, start, start + len(value), CUT_LINE if cut else FULL_LINE)]


SHAPES: dict[str, Callable[[str], list[Found]]] = {
    "iban": _find_ibans,
    "bic": _find(BIC, LIKELY),
    "vat_id": _find_vat_ids,
    "email": _find(EMAIL, SAFE),
    "phone": _find(PHONE, LIKELY),
    "identifier": _find_identifiers,
}
