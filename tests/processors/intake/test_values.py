"""Amounts, numbers with units and answers of yes and no, in one form; guesses are marked as such."""

from __future__ import annotations

import pytest

from mediamill.processors.intake.catalog import FieldSpec, FieldType
from mediamill.processors.intake.found import Found
from mediamill.processors.intake.hints import Hints
from mediamill.processors.intake.numbers import decimal_mark, read_number
from mediamill.processors.intake.shapes import find_shapes, is_iban
from mediamill.processors.intake.units import convert, is_other_unit
from mediamill.processors.intake.values import find_values

pytestmark = pytest.mark.spec("P3")

AMOUNT = FieldSpec("total", "amount", "Total")


def only(text: str, spec: FieldSpec, hints: Hints | None = None, unit: str = "") -> Found:
    (found,) = find_values(text, spec, hints or Hints(), "", unit)
    return found


@pytest.mark.parametrize(
    ("text", "value", "currency"),
    [
        ("1.234,56 €", "1234.56", "EUR"),
        ("$1,234.56", "1234.56", "USD"),
        ("EUR 99", "99", "EUR"),
        ("CHF 1'200.00", "1200.00", "CHF"),
        ("1 250,00 €", "1250.00", "EUR"),
        ("£0.99", "0.99", "GBP"),
        ("-12,00 EUR", "-12.00", "EUR"),
        ("12,00- EUR", "-12.00", "EUR"),
        ("1.000.000 €", "1000000", "EUR"),
        ("US$ 5,000", "5000", "USD"),
    ],
)
def test_an_amount_is_a_decimal_and_a_currency(text: str, value: str, currency: str) -> None:
    found = only(text, AMOUNT)
    assert (found.value, found.unit) == (value, currency)


def test_an_amount_without_a_currency_is_less_sure_and_a_round_one_even_less() -> None:
    assert only("€ 12.00", AMOUNT).sureness > only("12.00", AMOUNT).sureness > only("12", AMOUNT).sureness


def test_percentages_measures_and_dates_are_no_amounts() -> None:
    assert find_values("19 % on 3 kg of 31.12.2025", AMOUNT, Hints(), "") == []


@pytest.mark.parametrize(
    ("text", "unit", "value", "told"),
    [
        ("5 kW", "kW", "5", "kW"),
        ("850 W", "kW", "0.85", "kW"),
        ("2.450,5 g", "kg", "2.4505", "kg"),
        ("1,5 t", "kg", "1500", "kg"),
        ("0,4 kV", "V", "400", "V"),
        ("70 °F", "°C", "70", "°F"),
        ("12 in", "mm", "12", "in"),
        ("12.5", "kg", "12.5", "kg"),
        ("-20 °C", "°C", "-20", "°C"),
        ("97,6%", "%", "97.6", "%"),
    ],
)
def test_a_number_is_turned_into_the_wanted_unit_only_where_that_is_exact(
    text: str, unit: str, value: str, told: str
) -> None:
    found = only(text, FieldSpec("n", "number", "N", unit=unit))
    assert (found.value, found.unit) == (value, told)


def test_a_number_in_another_unit_is_told_as_written_and_hardly_sure() -> None:
    assert only("70 °F", FieldSpec("t", "number", "T", unit="°C")).sureness < 0.6


@pytest.mark.parametrize(
    ("text", "type_", "unit", "told"),
    [
        ("USD 88.00", "amount", "EUR", "USD"),
        ("88.00 $", "amount", "€", "USD"),
        ("£88.00", "amount", "eur", "GBP"),
        ("88.00 USD", "number", "EUR", "USD"),
        ("$ 88.00", "number", "kWh", "USD"),
    ],
)
def test_money_in_another_currency_is_told_as_written_and_hardly_sure(
    text: str, type_: FieldType, unit: str, told: str
) -> None:
    found = only(text, FieldSpec("n", type_, "N", unit=unit))
    assert (found.value, found.unit) == ("88.00", told)
    assert found.sureness < 0.6


def test_money_in_the_wanted_currency_is_as_sure_as_without_a_wish() -> None:
    for text, unit in (("88.00 €", "EUR"), ("EUR 88.00", "eur")):
        assert only(text, FieldSpec("n", "amount", "N", unit=unit)).sureness == only(text, AMOUNT).sureness
    euro = only("88.00 €", FieldSpec("n", "number", "N", unit="EUR"))
    assert (euro.unit, euro.sureness) == ("EUR", 1.0)


def test_a_unit_that_is_not_known_is_no_other_unit() -> None:
    assert is_other_unit("USD", "EUR")
    assert is_other_unit("USD", "kWh")
    assert not any(is_other_unit("USD", want) for want in ("", "US$", "usd", "per month"))


def test_units_of_different_quantities_do_not_turn_into_each_other() -> None:
    assert convert("1", "kW", "kWh") is None
    assert convert("0.1", "kg", "g") == "100"


def test_what_a_point_means_is_taken_from_the_other_numbers() -> None:
    assert decimal_mark("Summe 1.234,56 und 7,50") == ","
    assert read_number("1.250", ",")[0] == "1250"
    assert read_number("1.250", ".")[0] == "1.250"
    assert read_number("1.250", None)[1] < 0.7


@pytest.mark.parametrize(
    ("text", "value"), [("yes", "true"), ("Nein", "false"), ("☒", "true"), ("[x]", "true")]
)
def test_yes_and_no_are_true_and_false(text: str, value: str) -> None:
    assert only(text, FieldSpec("signed", "boolean", "Signed")).value == value


def test_an_iban_is_known_by_its_check_digits() -> None:
    (good,) = find_shapes("Konto DE89 3704 0044 0532 0130 00 bei uns", "iban")
    assert (good.value, good.sureness) == ("DE89370400440532013000", 1.0)
    (bad,) = find_shapes("DE88 3704 0044 0532 0130 00", "iban")
    assert bad.sureness < 0.5
    assert not is_iban("DE00")


@pytest.mark.parametrize(
    ("text", "value"),
    [
        (" INV-2025-0417", "INV-2025-0417"),
        ("# 4711 of yesterday", "4711"),
        ("7 DVZ 3321", "7 DVZ 3321"),
        ("HL 20250311", "HL 20250311"),
        ("UP25-88/1207.", "UP25-88/1207"),
    ],
)
def test_the_number_of_a_thing_ends_where_words_begin(text: str, value: str) -> None:
    (found,) = find_shapes(text, "identifier")
    assert found.value == value
    assert found.sureness >= 0.9


def test_a_number_of_a_thing_without_a_digit_is_hardly_one() -> None:
    (found,) = find_shapes("see below", "identifier")
    assert found.sureness < 0.5
