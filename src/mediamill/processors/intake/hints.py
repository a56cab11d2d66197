"""What a whole document shows about how its values are written: order of dates, decimal mark, currency, language."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from mediamill.processors.intake.dates import DateOrder, order_of
from mediamill.processors.intake.numbers import Mark, decimal_mark
from mediamill.processors.intake.source_page import SourcePage
from mediamill.processors.intake.units import CURRENCY, currency_named

LOOKED_CHARACTERS = 200_000
GERMAN = re.compile(
    r"\b(?:und|der|die|das|für|mit|\w*[Rr]echnung\w*|\w*[Bb]etrag|\w*[Dd]atum|nicht|wir|ist|zum|bis|vom|Zähler\w*)\b"
)
ENGLISH = re.compile(
    r"\b(?:and|the|of|for|with|invoice|amount|date|not|we|is|to|from|please)\b", re.IGNORECASE
)


@dataclass(frozen=True, slots=True)
class Hints:
    """None and empty: the document does not say."""

    order: DateOrder | None = None
    mark: Mark | None = None
    mark_known: bool = True  # by other numbers of the document, not only by its language
    currency: str = ""
    language: str = ""


def hints_of(pages: Sequence[SourcePage]) -> Hints:
    """Look at the beginning of the text."""
    text = "\n".join(page.text for page in pages[:50])[:LOOKED_CHARACTERS]
    money = {currency_named(match[0]) for match in CURRENCY.finditer(text)}
    german, english = len(GERMAN.findall(text)), len(ENGLISH.findall(text))
    language = "de" if german > english else "en" if english > german else ""
    order: DateOrder | None = order_of(text)
    if order is None and language == "de":
        order = "day"
    mark = decimal_mark(text)
    usual: Mark | None = "," if language == "de" else "." if language == "en" else None
    currency = money.pop() if len(money) == 1 else ""
    return Hints(order, mark or usual, mark is not None, currency, language)
