"""Dates as people write them; what can be read in two ways is told in both, and nobody is sure."""

from __future__ import annotations

import pytest

from mediamill.processors.intake.dates import find_dates, order_of

pytestmark = pytest.mark.spec("P3")


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("2025-12-31", "2025-12-31"),
        ("2025/12/31", "2025-12-31"),
        ("31.12.2025", "2025-12-31"),
        ("1. 2. 2025", "2025-02-01"),
        ("12/31/2025", "2025-12-31"),
        ("31/12/2025", "2025-12-31"),
        ("3 March 2025", "2025-03-03"),
        ("3rd of March 2025", "2025-03-03"),
        ("March 3, 2025", "2025-03-03"),
        ("Mar. 3, 2025", "2025-03-03"),
        ("3. März 2025", "2025-03-03"),
        ("den 17. Februar 2025", "2025-02-17"),
        ("03-Mar-2025", "2025-03-03"),
        ("15 janvier 2025", "2025-01-15"),
    ],
)
def test_a_date_is_told_as_year_month_day(text: str, value: str) -> None:
    (found,) = find_dates(f"am {text}, bitte")
    assert found.value == value
    assert found.sureness == 1.0


def test_a_date_of_two_readings_is_told_in_both_and_neither_is_sure() -> None:
    first, second = find_dates("12/11/2025")
    assert {first.value, second.value} == {"2025-11-12", "2025-12-11"}
    assert max(first.sureness, second.sureness) <= 0.5


def test_the_other_dates_of_a_document_tell_which_reading_is_meant() -> None:
    text = "Invoice date: 12/11/2025\nDue date: 12/31/2025"
    assert order_of(text) == "month"
    first, _ = find_dates("12/11/2025", order_of(text))
    assert first.value == "2025-12-11"
    assert 0.8 < first.sureness < 1


def test_dates_that_contradict_each_other_tell_nothing() -> None:
    assert order_of("31/12/2025 and 12/31/2025") is None


def test_the_same_day_and_month_is_one_date() -> None:
    (found,) = find_dates("05/05/2025")
    assert (found.value, found.sureness) == ("2025-05-05", 1.0)


@pytest.mark.parametrize(
    "text",
    ["31.02.2025", "99.99.2025", "1.2.3.2025", "12/2025", "2025", "192.168.10.20", "13/13/2025", "00.00.00"],
)
def test_what_is_no_date_is_none(text: str) -> None:
    assert find_dates(text) == []


def test_a_year_of_two_digits_is_less_sure() -> None:
    (found,) = find_dates("31.12.25")
    assert found.value == "2025-12-31"
    assert found.sureness < 0.9
