"""Fields by their labels: in the cell, in the row, above; in other words; with a place, and with doubts where due."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from tests.intake_drawing import lines, scan, table, text_pdf, write_workbook
from tests.intake_invoices import either_date
from tests.intake_papers import workbook_list
from tests.processors.document_files import Words
from tests.processors.intake.running import Analysed, analyse, field

pytestmark = pytest.mark.spec("P3")

NUMBER = field("invoice_number")
DATE = field("date", "date")
TOTAL = field("total", "amount")


def of_pdf(tmp_path: Path, words: Sequence[Words], *fields: dict[str, Any]) -> Analysed:
    return analyse(text_pdf(tmp_path / "a.pdf", [words]), tmp_path / "out", fields)


def of_text(tmp_path: Path, text: str, *fields: dict[str, Any], name: str = "a.txt") -> Analysed:
    (tmp_path / name).write_text(text, encoding="utf-8")
    return analyse(tmp_path / name, tmp_path / "out", fields)


@pytest.mark.parametrize(
    "text",
    [
        "Invoice number: AB-12",
        "INVOICE NUMBER: AB-12",
        "Invoice no. AB-12",
        "Invoice # AB-12",
        "Inv. No: AB-12",
        "Rechnungsnummer: AB-12",
        "Rechnungs-Nr.: AB-12",
        "Rechnung Nr. AB-12",
        "Your customer ID: 7, Invoice no: AB-12",
    ],
)
def test_a_label_is_found_in_many_wordings(tmp_path: Path, text: str) -> None:
    found = of_text(tmp_path, f"{text}\nThank you\n", NUMBER)
    assert found.value("invoice_number") == "AB-12"


def test_a_label_stands_before_the_value_left_of_it_or_above_it(tmp_path: Path) -> None:
    words = [
        (50, 780, "Invoice number: A-1"),
        *table(740, (50, 300), [("Date", "2025-01-31")]),
        *table(700, (50, 200, 350), [("Order", "Total", "Terms"), ("O-9", "12.00 EUR", "net")]),
    ]
    found = of_pdf(tmp_path, words, NUMBER, DATE, TOTAL)
    assert [found.value(name) for name in ("invoice_number", "date", "total")] == [
        "A-1",
        "2025-01-31",
        "12.00",
    ]
    sure = [found.best(name) or {} for name in ("invoice_number", "date", "total")]
    assert sure[0]["confidence"] > sure[1]["confidence"] > sure[2]["confidence"] > 0.8


def test_the_place_of_a_value_is_on_the_drawn_page(tmp_path: Path) -> None:
    found = of_pdf(tmp_path, table(740, (50, 300), [("Invoice number", "A-1")]), NUMBER)
    best = found.best("invoice_number") or {}
    left, top, right, bottom = best["box"]
    assert best["page"] == 1
    assert 0.45 < left < right < 0.65
    (page,) = found.result["pages"]
    image = Image.open(found.folder / page["image"]).convert("L")
    assert (image.width, image.height) == (page["width"], page["height"])
    inside = image.crop(
        (
            int(left * image.width),
            int(top * image.height),
            int(right * image.width),
            int(bottom * image.height),
        )
    )
    outside = image.crop((int(right * image.width) + 4, 0, image.width, image.height))
    assert np.asarray(inside).min() < 100  # letters
    assert np.asarray(outside).min() > 200  # nothing


def test_a_longer_label_is_another_one(tmp_path: Path) -> None:
    text = "Due date: 2025-02-01\nDate of birth: 1990-01-01\nDelivery date: 2025-01-02\n"
    found = of_text(tmp_path, text, field("date", "date"))
    assert all(each["confidence"] < 0.6 for each in found.all("date"))


def test_a_field_nobody_knows_is_found_by_its_own_label(tmp_path: Path) -> None:
    wanted = field("blade_count", "number", "Number of rotor blades")
    found = of_text(tmp_path, "Number of rotor blades: 3\nHub height: 120 m\n", wanted)
    assert (found.value("blade_count"), found.result["fields"][0]["confidence"] > 0.9) == ("3", True)


def test_a_description_names_other_words_for_a_field(tmp_path: Path) -> None:
    wanted = field("x", "text", "Key", description='The "device tag" on the housing')
    assert of_text(tmp_path, "Device tag: T-81\n", wanted).value("x") == "T-81"


def test_units_stand_behind_the_value_in_the_next_cell_or_in_the_label(tmp_path: Path) -> None:
    rows = [("Rated power", "5.0", "kW"), ("Weight [g]", "750", ""), ("Voltage", "230 V / 50 Hz", "")]
    found = analyse(
        write_workbook(tmp_path / "a.xlsx", {"Data": rows}),
        tmp_path / "out",
        [
            field("power", "number", "Rated power", "W"),
            field("weight", "number", unit="kg"),
            field("voltage", "number", unit="V"),
        ],
    )
    values = {each["name"]: (each["value"], each["unit"]) for each in found.result["fields"]}
    assert values == {"power": ("5000", "W"), "weight": ("0.75", "kg"), "voltage": ("230", "V")}


def test_a_list_has_many_values_and_none_is_told_as_sure(tmp_path: Path) -> None:
    found = analyse(workbook_list(tmp_path).path, tmp_path / "out")
    assert found.result["fields"]
    assert all(each["confidence"] <= 0.5 for each in found.result["fields"])


def test_a_date_of_two_readings_is_proposed_in_both(tmp_path: Path) -> None:
    found = analyse(either_date(tmp_path).path, tmp_path / "out", [field("invoice_date", "date")])
    assert {each["value"] for each in found.all("invoice_date")} == {"2025-11-12", "2025-12-11"}
    assert all(each["confidence"] < 0.55 for each in found.all("invoice_date"))


def test_two_values_of_one_label_cast_doubt_on_both(tmp_path: Path) -> None:
    alone = of_text(tmp_path, "Invoice number: A-1\n", NUMBER).best("invoice_number") or {}
    both = of_text(tmp_path, "Invoice number: A-1\nInvoice number: B-2\n", NUMBER).all("invoice_number")
    assert [each["value"] for each in both] == ["A-1", "B-2"]
    assert both[0]["confidence"] < 0.85 * alone["confidence"] + 0.01


def test_at_most_three_values_of_a_field_are_proposed(tmp_path: Path) -> None:
    text = "".join(f"Invoice number: A-{number}\n" for number in range(9))
    assert len(of_text(tmp_path, text, NUMBER).all("invoice_number")) == 3


def test_a_scan_is_less_sure_than_a_text(tmp_path: Path) -> None:
    scan(["Invoice number: AB-1203", "Thank you very much"], size=(1240, 500)).save(tmp_path / "b.pdf", "PDF")
    scanned = analyse(tmp_path / "b.pdf", tmp_path / "scanned", [NUMBER]).best("invoice_number") or {}
    typed = of_pdf(tmp_path, lines(780, ["Invoice number: AB-1203"]), NUMBER).best("invoice_number") or {}
    assert scanned["value"] == typed["value"] == "AB-1203"
    assert 0.7 < scanned["confidence"] < typed["confidence"]
    assert scanned["box"] is not None


def test_without_fields_there_is_text_and_nothing_else(tmp_path: Path) -> None:
    found = of_text(tmp_path, "Invoice number: A-1\n")
    assert found.result["fields"] == []
    assert found.result["content"].startswith("Invoice number")


def test_a_total_in_another_currency_is_proposed_but_not_called_sure(tmp_path: Path) -> None:
    wanted = {**TOTAL, "unit": "EUR"}
    other = of_text(tmp_path, "Total: USD 88.00\nThank you\n", wanted)
    (one,) = [each for each in other.result["fields"] if each["name"] == "total"]
    assert (one["value"], one["unit"], one["confidence"] < 0.6) == ("88.00", "USD", True)
    both = of_text(tmp_path, "Total: USD 88.00\nTotal: 81.00 EUR\n", wanted, name="b.txt")
    assert both.value("total") == "81.00", "the one that is asked for is the likelier"
