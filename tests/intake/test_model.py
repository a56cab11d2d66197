"""Names, fields and places in lists: what is taken as it is, what is made of it, and where it stops."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

import pytest

from mediamill.intake.model import (
    BadFieldError,
    BadListError,
    BadProjectError,
    Field,
    check_fields,
    check_slug,
    clean_file_name,
    home_of_analysis,
    id_of,
    make_slug,
)
from mediamill.intake.pages import check_amount, read_cursor, read_place, write_place
from mediamill.intake.projects import check_description, check_name

pytestmark = pytest.mark.spec("P1")


@pytest.mark.parametrize(
    ("name", "slug"),
    [
        ("Invoices 2024", "invoices-2024"),
        ("  Größe & Maß!  ", "groe-ma"),
        ("x" * 64, "x" * 64),
        ("x" * 65, "x" * 64),
        ("x" * 63 + " y", "x" * 63),
    ],
)
def test_a_slug_is_made_of_a_name(name: str, slug: str) -> None:
    assert make_slug(name) == slug
    assert check_slug(slug) == slug


@pytest.mark.parametrize("slug", ["", "A", "a--b", "-a", "a-", "a_b", "ä", "x" * 65])
def test_what_is_no_slug_is_refused(slug: str) -> None:
    with pytest.raises(BadProjectError) as refused:
        check_slug(slug)
    assert refused.value.code == "bad_project"


def test_a_name_and_a_description_have_their_length(subtests: Any) -> None:
    assert check_name(" a \n b ") == "a b"
    assert check_name("n" * 200) == "n" * 200
    assert check_description(" a\n\nb \ud800") == "a\n\nb ?"
    assert check_description("d" * 2_000) == "d" * 2_000
    for check, bad in (
        (check_name, "n" * 201),
        (check_name, " "),
        (check_description, "d" * 2_001),
        (check_description, "a\0b"),
    ):
        with subtests.test(bad[:10]), pytest.raises(BadProjectError):
            check(bad)


def test_a_field_keeps_all_that_fits() -> None:
    most: dict[str, Any] = {
        "name": "a" + "_" * 59,
        "label": "l" * 200,
        "description": "d" * 2_000,
        "unit": "u" * 50,
    }
    most["categories"] = tuple(f"{n:060}" for n in range(20))
    assert asdict(Field(type="date", **most)) == {"type": "date", **most}
    assert asdict(Field("due_at", label=" Due \n at ")) == {
        "name": "due_at",
        "type": "text",
        "label": "Due at",
        "description": "",
        "unit": "",
        "categories": (),
    }


@pytest.mark.parametrize(
    ("bad", "why"),
    [
        ({"name": "a" * 61}, "name of a field"),
        ({"name": 7}, "name of a field"),
        ({"name": "ä"}, "name of a field"),
        ({"type": "money"}, "no type 'money'"),
        ({"label": "l" * 201}, "label has at most 200"),
        ({"description": "d" * 2_001}, "description has at most 2000"),
        ({"unit": "u" * 51}, "unit has at most 50"),
        ({"categories": tuple(map(str, range(21)))}, "at most 20 categories"),
        ({"unit": "a\0b"}, "unit has at most 50 printable"),
    ],
)
def test_a_field_that_cannot_be_one_says_which_part_is_wrong(bad: dict[str, Any], why: str) -> None:
    with pytest.raises(BadFieldError, match=why) as refused:
        Field(**{"name": "total", **bad})
    assert refused.value.code == "bad_field"


def test_a_catalog_may_have_two_hundred_fields() -> None:
    fields = [Field(f"f{number}") for number in range(201)]
    assert check_fields(fields[:200]) == fields[:200]
    with pytest.raises(BadFieldError, match="at most 200 fields, not 201"):
        check_fields(fields)
    with pytest.raises(BadFieldError, match="f1 is there twice"):
        check_fields([*fields[:2], fields[1]])


def test_of_a_long_path_the_end_is_shown() -> None:
    assert clean_file_name("x" * 300 + "/" + "y" * 250 + ".pdf") == "/" + "y" * 250 + ".pdf"
    assert clean_file_name("a  b\t.pdf") == "a b\\t.pdf"


@pytest.mark.parametrize(
    ("subject", "analysis"), [("12", 12), ("9" * 18, 10**18 - 1), ("1" * 19, 0), ("x", 0), ("", 0), (None, 0)]
)
def test_a_job_is_about_an_analysis_or_about_none(subject: str | None, analysis: int) -> None:
    assert id_of(subject) == analysis


def test_outputs_are_spread_over_a_thousand_folders() -> None:
    assert home_of_analysis(7) == "intake/outputs/007/7"
    assert home_of_analysis(12_999) == "intake/outputs/999/12999"
    assert home_of_analysis(13_000) == "intake/outputs/000/13000"


def test_a_page_has_from_one_to_five_hundred(subtests: Any) -> None:
    assert [check_amount(amount) for amount in (1, 500)] == [1, 500]
    for amount in (0, -1, 501):
        with subtests.test(amount), pytest.raises(BadListError) as refused:
            check_amount(amount)
        assert refused.value.code == "bad_list"


def test_a_place_in_a_list_is_what_was_given_out(subtests: Any) -> None:
    assert (read_cursor(None, 7), read_cursor("0", 7)) == (7, 0)
    assert read_cursor(str(2**63 - 1), 0) == 2**63 - 1
    assert read_place(None) == (0, 0)
    assert read_place(write_place(12, 345)) == (12, 345)
    for bad in (str(2**63), "0" * 20, "", "-1", "x", "²", "٣", "1.0"):
        with subtests.test(bad), pytest.raises(BadListError):
            read_cursor(bad, 0)
        with subtests.test(bad), pytest.raises(BadListError):
            read_place(f"1-{bad}")
