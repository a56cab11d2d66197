"""Values in the one form of their type."""

from __future__ import annotations

import pytest

from mediamill.intake.values import BadValueError, canonical, is_number

GOOD = [
    ("text", "  Ada \n & Co ", "Ada & Co"),
    ("text", "x" * 2000, "x" * 2000),
    ("text", "A\0da\ud800", "Ada?"),
    ("number", "1234.50", "1234.50"),
    ("number", "1,234.50", "1234.50"),
    ("number", "1.234,50", "1234.50"),
    ("number", "1 234,5", "1234.5"),
    ("number", "1'234'567", "1234567"),
    ("number", "1,234,567", "1234567"),
    ("number", "1.234.567,8", "1234567.8"),
    ("number", "−3", "-3"),
    ("number", "+007.10", "7.10"),
    ("number", "0,125", "0.125"),
    ("number", "1.5", "1.5"),
    ("number", "1234,567", "1234.567"),
    ("number", "1234.567,8", "1234567.8"),
    ("number", "1’234’567.5", "1234567.5"),
    ("number", "000", "0"),
    ("number", "-007", "-7"),
    ("number", "1000", "1000"),
    ("number", "9" * 40, "9" * 40),
    ("amount", "-0.5", "-0.5"),
    ("date", "2024-02-29", "2024-02-29"),
    ("date", "1.2.2024", "2024-02-01"),
    *[("boolean", word, "true") for word in ("Yes", "true", "1", "ON")],
    *[("boolean", word, "false") for word in ("no", "FALSE", "0", "off")],
]
BAD = [
    ("text", " "),
    ("text", "x" * 2001),
    ("text", "\0"),
    ("number", "1,234"),
    ("number", "-12,345"),
    ("number", "twelve"),
    ("number", "1e9"),
    ("number", "٣"),
    ("number", "1.2.3,4,5"),
    ("number", "1.234,567,890"),
    ("number", "1,234.567.890"),
    ("number", "9" * 41),
    ("amount", "12 EUR"),
    ("date", "2023-02-29"),
    ("date", "31/12/2024"),
    ("date", "32.1.2024"),
    ("date", "1.2.24"),
    ("boolean", "maybe"),
]


@pytest.mark.spec("P6")
@pytest.mark.parametrize(("type_", "given", "expected"), GOOD)
def test_a_value_gets_the_form_of_its_type(type_: str, given: str, expected: str) -> None:
    assert canonical(type_, given) == expected
    assert canonical(type_, expected) == expected


@pytest.mark.spec("P6")
@pytest.mark.parametrize(("type_", "given"), BAD)
def test_what_has_no_such_form_is_refused(type_: str, given: str) -> None:
    with pytest.raises(BadValueError) as refused:
        canonical(type_, given)
    assert refused.value.code == "bad_value"


def test_only_plain_decimals_are_numbers() -> None:
    assert is_number("-12.5")
    assert not is_number("=1+1")
    assert not is_number("1e5")
