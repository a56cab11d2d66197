"""Words of labels, compared without case, accents, punctuation and spaces: `Rechnungs-Nr.` is `rechnungsnumber`."""

from __future__ import annotations

import re
import unicodedata
from dataclasses import dataclass

WORD = re.compile(r"[^\W\d_]+|\d+|#|№")  # digits apart: OCR loses the space between label and value
NUMBER_WORDS = frozenset(("nr", "no", "num", "number", "nummer", "numero", "#", "№", "n°"))
LOOKED_CHARACTERS = 400  # of a cell: labels are short, prose is not full of them


@dataclass(frozen=True, slots=True)
class Word:
    """One word and where it is."""

    key: str
    start: int
    end: int


def words_of(text: str) -> list[Word]:
    """The words of a text that may be parts of labels."""
    return [
        Word(_key(match[0]), match.start(), match.end()) for match in WORD.finditer(text[:LOOKED_CHARACTERS])
    ]


def label_key(text: str) -> str:
    """A label as it is compared."""
    return "".join(word.key for word in words_of(text.replace("_", " ")))


def _key(word: str) -> str:
    parts = unicodedata.normalize("NFKD", word.casefold())
    plain = "".join(char for char in parts if not unicodedata.combining(char))
    if plain in NUMBER_WORDS:
        return "number"
    if plain.endswith("nummer"):
        return f"{plain[:-6]}number"
    return f"{plain[:-2]}number" if plain.endswith("nr") and len(plain) > 3 else plain
