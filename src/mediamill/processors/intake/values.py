"""The values of one type in a text, in canonical form, from left to right."""

from __future__ import annotations

import re

from mediamill.processors.intake.catalog import FieldSpec
from mediamill.processors.intake.dates import find_dates
from mediamill.processors.intake.found import Found
from mediamill.processors.intake.hints import Hints
from mediamill.processors.intake.numbers import find_numbers
from mediamill.processors.intake.shapes import find_shapes
from mediamill.processors.intake.units import (
    CURRENCY,
    UNIT,
    convert,
    currency_named,
    is_other_unit,
    unit_named,
)

LOOKED_CHARACTERS = 2_000
VALUE_CHARACTERS = 500
PLAIN_MONEY, ROUND_MONEY = 0.9, 0.6  # an amount without a currency: with cents, without
OTHER_UNIT, NO_UNIT = 0.55, 0.85  # a value in a unit that is not the wanted one, and in none
YES = frozenset(("yes", "ja", "true", "wahr", "oui", "x", "✓", "✔", "☒", "☑", "on", "checked", "vorhanden"))
NO = frozenset(("no", "nein", "false", "falsch", "non", "☐", "off", "none", "keine", "unchecked"))
WORD = re.compile(r"[^\W\d_]+|[✓✔☒☑☐]")


def find_values(text: str, spec: FieldSpec, hints: Hints, kind: str, unit: str = "") -> list[Found]:
    """`kind`: what a text is, such as an IBAN; `unit`: what stands in the label or in the next cell."""
    text = text[:LOOKED_CHARACTERS]
    match spec.type:
        case "date":
            return find_dates(text, hints.order)
        case "amount":
            return _find_amounts(text, spec, hints, unit)
        case "number":
            return _find_quantities(text, spec, hints, unit)
        case "boolean":
            return _find_booleans(text)
        case "text":
            return find_shapes(text, kind)


def _find_amounts(text: str, spec: FieldSpec, hints: Hints, unit: str) -> list[Found]:
    dates = find_dates(text)
    found = []
    for number in find_numbers(text, hints.mark, money=True, known=hints.mark_known):
        if _inside(number, dates) or _is_measured(text, number):
            continue
        start, end, currency = _with_currency(text, number)
        sureness = number.sureness
        if not (currency or currency_named(unit)):
            sureness *= PLAIN_MONEY if re.search(r"\.\d\d$", number.value) else ROUND_MONEY
        told = currency or currency_named(unit) or hints.currency
        sureness *= OTHER_UNIT if is_other_unit(told, spec.unit) else 1.0
        found.append(Found(_minus_behind(text, number), start, end, sureness, told))
    return found


def _minus_behind(text: str, number: Found) -> str:
    """Some programs write `12,00-`."""
    behind = re.match(r"-(?!\s*\d)", text[number.end : number.end + 4])
    return f"-{number.value}" if behind and not number.value.startswith("-") else number.value


def _with_currency(text: str, number: Found) -> tuple[int, int, str]:
    for match in CURRENCY.finditer(text, max(0, number.start - 6), number.start):
        if not text[match.end() : number.start].strip(" \u00a0\u202f."):
            return match.start(), number.end, currency_named(match[0])
    after = CURRENCY.search(text, number.end, number.end + 8)
    if after and not text[number.end : after.start()].strip(" \u00a0\u202f,-–"):
        return number.start, after.end(), currency_named(after[0])
    return number.start, number.end, ""


def _is_measured(text: str, number: Found) -> bool:
    unit = UNIT.match(text, number.end)
    return bool(unit and unit_named(unit[1]) and not CURRENCY.match(unit[1]))


def _find_quantities(text: str, spec: FieldSpec, hints: Hints, beside: str) -> list[Found]:
    dates = find_dates(text)
    wanted = unit_named(spec.unit) or currency_named(spec.unit) or spec.unit
    found = []
    for number in find_numbers(text, hints.mark, known=hints.mark_known):
        if not _inside(number, dates):
            end, written = _unit_behind(text, number, spec.unit)
            written = written or unit_named(beside) or beside
            if wanted and not written:
                written = _with_currency(text, number)[2]
            found.append(_in_wanted(number, end, written, wanted))
    return found


def _unit_behind(text: str, number: Found, wanted: str) -> tuple[int, str]:
    match = UNIT.match(text, number.end)
    if match is None:
        return number.end, ""
    if wanted and match[1].casefold() == wanted.casefold():
        return match.end(), unit_named(match[1]) or wanted
    known = unit_named(match[1])
    return (match.start(1) + len(match[1].rstrip(".,;:)")), known) if known else (number.end, "")


def _in_wanted(number: Found, end: int, written: str, wanted: str) -> Found:
    """A unit is turned into the wanted one where that is exact, else it stays as written."""
    if not wanted:
        return Found(number.value, number.start, end, number.sureness, written)
    if not written:
        return Found(number.value, number.start, end, number.sureness * NO_UNIT, wanted)
    if written.casefold() == wanted.casefold():
        return Found(number.value, number.start, end, number.sureness, wanted)
    turned = convert(number.value, written, wanted)
    if turned is not None:
        return Found(turned, number.start, end, number.sureness * 0.98, wanted)
    return Found(number.value, number.start, end, number.sureness * OTHER_UNIT, written)


def _find_booleans(text: str) -> list[Found]:
    found = []
    for match in WORD.finditer(text):
        word = match[0].casefold()
        if word in YES or word in NO:
            value = "true" if word in YES else "false"
            found.append(Found(value, match.start(), match.end()))
    return found


def _inside(number: Found, dates: list[Found]) -> bool:
    return any(date.start <= number.start < date.end for date in dates)
