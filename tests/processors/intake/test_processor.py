"""A project file as a whole: pages, pictures, text, summary; and what is kept within bounds."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from PIL import Image

from mediamill.processors.contract import RefusedMediaError
from mediamill.processors.intake.catalog import BadCatalogError
from mediamill.processors.intake.extractor import extractor_name
from mediamill.processors.intake.processor import IntakeProcessor
from mediamill.settings import Settings
from tests.intake_drawing import lines, text_pdf
from tests.intake_invoices import invoice_long
from tests.intake_papers import meter_photo, workbook_form
from tests.processors.intake.running import analyse, field

pytestmark = pytest.mark.spec("P3")


def test_a_document_becomes_text_pages_pictures_and_a_summary(tmp_path: Path) -> None:
    found = analyse(invoice_long(tmp_path).path, tmp_path / "out")
    result = found.result
    assert (result["kind"], result["mime_type"], result["unsupported"]) == (
        "document",
        "application/pdf",
        None,
    )
    assert result["summary"] == "Invoice (PDF document, 3 pages): Hansa Logistik KG"
    assert result["models"] == [extractor_name(Settings())] == ["rules@1"]
    assert [page["image"] for page in result["pages"]] == [f"page-0000{number}.webp" for number in (1, 2, 3)]
    assert set(found.files) == {"pages.json", "thumbnail.jpg", *(page["image"] for page in result["pages"])}
    texts = json.loads((found.folder / "pages.json").read_text())
    assert [page["number"] for page in texts] == [1, 2, 3]
    assert "Rechnungsbetrag" in texts[2]["text"]
    with Image.open(found.folder / "thumbnail.jpg") as thumbnail:
        assert max(thumbnail.size) == 320
    with Image.open(found.folder / "page-00001.webp") as page:
        assert max(page.size) == 1400


def test_a_sheet_has_text_but_no_picture(tmp_path: Path) -> None:
    found = analyse(workbook_form(tmp_path).path, tmp_path / "out")
    (page,) = found.result["pages"]
    assert (page["label"], page["image"], page["width"]) == ("Sheet: Form", None, None)
    assert (found.best("meter_reading") or {})["box"] is None
    assert set(found.files) == {"pages.json"}


def test_a_mail_is_called_a_mail(tmp_path: Path) -> None:
    head = "From: ada@example.com\nTo: bob@example.com\nSubject: The boiler\nMIME-Version: 1.0\n\n"
    (tmp_path / "a.eml").write_text(f"{head}Dear Bob,\nit leaks.\n")
    assert analyse(tmp_path / "a.eml", tmp_path / "out").result["summary"] == "Mail: The boiler"


def test_an_image_is_its_own_page_and_is_described(tmp_path: Path) -> None:
    found = analyse(meter_photo(tmp_path).path, tmp_path / "out")
    assert found.result["kind"] == "image"
    (page,) = found.result["pages"]
    assert page["image"] == "page-00001.webp"
    assert max(page["width"], page["height"]) == 1400
    assert found.result["summary"].startswith("Image.")
    left, top, right, bottom = (found.best("meter_reading") or {})["box"]
    assert 0.2 < left < right < 0.8
    assert 0.3 < top < bottom < 0.45  # the dial


def test_of_many_pages_those_with_values_are_drawn_and_never_more_than_thirty(tmp_path: Path) -> None:
    pages = [lines(790, [f"This is page {number} of a long report"]) for number in range(1, 61)]
    pages[54] = lines(790, ["Invoice number: A-55"])
    found = analyse(text_pdf(tmp_path / "a.pdf", pages), tmp_path / "out", [field("invoice_number")])
    drawn = [page["number"] for page in found.result["pages"] if page["image"]]
    assert drawn == [*range(1, 30), 55]
    assert len(found.result["pages"]) == 60
    assert all(page["width"] and page["height"] == 1400 for page in found.result["pages"])


@pytest.mark.parametrize(
    ("name", "data", "words"),
    [
        ("song.wav", b"RIFF\x24\x00\x00\x00WAVEfmt " + b"\0" * 40, "audio/"),
        ("old.doc", b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1" + b"\0" * 1500, "not"),
        ("some.bin", bytes(range(256)) * 4, "not analysed"),
    ],
)
def test_types_that_nobody_analyses_complete_and_say_so(
    tmp_path: Path, name: str, data: bytes, words: str
) -> None:
    (tmp_path / name).write_bytes(data)
    found = analyse(tmp_path / name, tmp_path / "out")
    assert found.result["kind"] == "unsupported"
    assert words in found.result["unsupported"]
    assert found.result["summary"].startswith("Not analysed:")
    assert (found.files, found.result["fields"]) == ({}, [])


@pytest.mark.parametrize(
    ("name", "data", "reason"),
    [
        ("a.pdf", b"", "empty"),
        ("b.pdf", b"%PDF-1.4\nnothing more", "damaged"),
        ("c.txt", b" \n\n ", "empty document"),
    ],
)
def test_empty_and_damaged_files_are_refused_for_good(
    tmp_path: Path, name: str, data: bytes, reason: str
) -> None:
    (tmp_path / name).write_bytes(data)
    with pytest.raises(RefusedMediaError, match=reason):
        analyse(tmp_path / name, tmp_path / "out")


def test_a_catalog_that_makes_no_sense_is_final(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("Hello")
    for fields in (
        [{"name": "x", "type": "colour"}],
        [{"type": "text"}],
        [field("a"), field("a")],
        [field("a")] * 201,
    ):
        with pytest.raises(BadCatalogError):
            analyse(tmp_path / "a.txt", tmp_path / "out", fields)


def test_the_network_is_asked_for_only_where_a_model_is_beyond_this_machine(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assert IntakeProcessor((), 60).network is False
    monkeypatch.setenv("MEDIAMILL_TEXT", "openai")
    assert IntakeProcessor((), 60).network is True


def test_a_result_is_small_however_much_is_found(tmp_path: Path) -> None:
    fields = [field(f"field_{number}") for number in range(200)]
    text = "\n".join(f"Field {number}: {'ü' * 300}{copy}" for number in range(200) for copy in range(3))
    (tmp_path / "a.txt").write_text(text)
    found = analyse(tmp_path / "a.txt", tmp_path / "out", fields)
    assert len(json.dumps(dict(found.result), ensure_ascii=False).encode()) < 1_000_000
    assert {each["name"] for each in found.result["fields"]} == {each["name"] for each in fields}
