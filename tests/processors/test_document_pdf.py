"""PDF files become text in reading order; scanned pages by OCR; bad ones end with a reason."""

from __future__ import annotations

import io
from pathlib import Path
from typing import NoReturn

import pypdfium2 as pdfium
import pytest
import pyvips
from PIL import Image, ImageDraw, ImageFont

from mediamill.processors.contract import RefusedMediaError
from mediamill.processors.document.document_text import Limits
from mediamill.processors.document.pdf import read_pdf, render
from mediamill.processors.page_spans import pages_not_read, spans_of
from tests.processors.document_files import PdfFile, Reports, process, reason_of, write_pdf

LEFT = [(50, 700 - 14 * n, f"The left column has prose, line number {n}") for n in range(8)]
RIGHT = [(320, 700 - 14 * n, f"The right column has prose, line number {n}") for n in range(8)]


def scan(*lines: str, size: tuple[int, int] = (1240, 700)) -> Image.Image:
    """A picture of a page, as a scanner makes it."""
    image = Image.new("RGB", size, "white")
    draw = ImageDraw.Draw(image)
    for number, line in enumerate(lines):
        draw.text((80, 80 + 90 * number), line, fill="black", font=ImageFont.load_default(48))
    return image


@pytest.mark.spec("C26")
def test_text_comes_back_letter_by_letter(tmp_path: Path) -> None:
    lines = ["Grüße aus Köln: 3 × 4 = 12 €", "“Quoted” – (in brackets) \\ and slashes", "A1 b2, c3; d4!"]
    path = write_pdf(tmp_path / "a.pdf", [[(50, 700 - 16 * n, line) for n, line in enumerate(lines)]])
    output = process(path, tmp_path / "out")
    assert output.result["content"] == "PDF document: The Title\n\n" + "\n".join(lines)
    assert output.result["facts"] == {
        "format": "pdf",
        "pages": 1,
        "pages_read": 1,
        "unit": "page",
        "title": "The Title",
        "author": "Ada",
        "created": "2026-03-01 10:00",
    }


@pytest.mark.spec("C26")
def test_columns_are_read_one_after_the_other_however_they_were_drawn(tmp_path: Path) -> None:
    title = (
        50,
        760,
        "A title that is so long that it spans both columns of the page from edge to edge, fully",
    )
    line_by_line = [words for row in zip(LEFT, RIGHT, strict=True) for words in row]
    for order in ([title, *line_by_line], [*RIGHT, *LEFT, title], [*reversed(line_by_line), title]):
        path = write_pdf(tmp_path / "a.pdf", [order])
        text = read_pdf(path, Limits()).parts[0].text
        told = [line for line in text.splitlines() if line]
        assert told == [title[2], *(words[2] for words in LEFT), *(words[2] for words in RIGHT)]


def test_rows_of_a_table_stay_together_though_drawn_by_column(tmp_path: Path) -> None:
    columns = [(50, ["Name", "Bolt", "Nut"]), (250, ["Price", "1.20", "0.30"]), (400, ["Stock", "12", "3"])]
    words = [(x, 700 - 20 * n, cell) for x, cells in columns for n, cell in enumerate(cells)]
    text = read_pdf(write_pdf(tmp_path / "a.pdf", [words]), Limits()).parts[0].text
    assert [line.split() for line in text.splitlines()] == [
        ["Name", "Price", "Stock"],
        ["Bolt", "1.20", "12"],
        ["Nut", "0.30", "3"],
    ]


def test_what_was_filled_into_a_form_is_read(tmp_path: Path) -> None:
    pdf = PdfFile()
    pdf.add(1, "<< /Type /Catalog /Pages 2 0 R /AcroForm << /Fields [6 0 R] >> >>")
    pdf.add(2, "<< /Type /Pages /Count 1 /Kids [4 0 R] >>")
    pdf.add(3, "<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica >>")
    fonts = "/Resources << /Font << /F1 3 0 R >> >>"
    pdf.add(
        4, f"<< /Type /Page /Parent 2 0 R /MediaBox [0 0 595 842] /Contents 5 0 R {fonts} /Annots [6 0 R] >>"
    )
    pdf.add_stream(5, b"BT /F1 11 Tf 50 700 Td (Your family name, please:) Tj ET")
    pdf.add(
        6,
        "<< /Type /Annot /Subtype /Widget /FT /Tx /T (name) /V (Lovelace) /F 4 /Rect [200 695 400 715] "
        "/AP << /N 7 0 R >> >>",
    )
    pdf.add_stream(
        7,
        b"BT /F1 11 Tf 2 5 Td (Lovelace) Tj ET",
        f"/Type /XObject /Subtype /Form /BBox [0 0 200 20] {fonts}",
    )
    text = read_pdf(pdf.write(tmp_path / "a.pdf"), Limits()).parts[0].text
    assert text.split() == ["Your", "family", "name,", "please:", "Lovelace"]


@pytest.fixture(scope="module")
def scanned(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two scanned pages."""
    path = tmp_path_factory.mktemp("scan") / "scan.pdf"
    first = scan("Invoice number 4711", "Total amount 99.50 EUR")
    first.save(
        path, save_all=True, append_images=[scan("Second page", "Thank you very much")], resolution=150
    )
    return path


@pytest.mark.spec("C26")
def test_scanned_pages_are_read_by_ocr_once(scanned: Path, tmp_path: Path) -> None:
    reports = Reports()
    output = process(scanned, tmp_path / "out", payload={"previews": True}, reports=reports)
    content = output.result["content"]
    assert (
        content.index("4711")
        < content.index("99.50")
        < content.index("[Page 2]")
        < content.index("Thank you")
    )
    assert output.result["facts"]["ocr_pages"] == 2
    assert output.result["models"]
    saved = reports.checkpoints[-1]
    assert list(saved["scanned_pages"]) == ["1", "2"]

    # A second attempt takes the pages from the checkpoint: it would not know this text otherwise.
    known = {"scanned_pages": {"1": "read before", "2": "read before too"}}
    again = process(scanned, tmp_path / "again", checkpoint=known)
    assert "[Page 1]\nread before\n\n[Page 2]\nread before too" in again.result["content"]
    assert again.result["models"] == []

    preview = pyvips.Image.new_from_file(str(tmp_path / "out" / output.files["preview.webp"]))
    thumbnail = pyvips.Image.new_from_file(str(tmp_path / "out" / output.files["thumbnail.jpg"]))
    assert (preview.width, thumbnail.width) == (768, 320)
    assert preview.height <= 768


@pytest.mark.spec("C26", "P8")
def test_scanned_pages_beyond_the_limit_are_named(
    scanned: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MEDIAMILL_DOCUMENT_OCR_PAGES", "0")
    output = process(scanned, tmp_path / "out")
    assert output.result["content"].endswith("scan\n\n[pages 1 and 2 were not read]")


@pytest.mark.spec("P8")
def test_a_job_that_runs_out_of_time_hands_over_what_it_has(scanned: Path, tmp_path: Path) -> None:
    output = process(scanned, tmp_path / "out", timeout_seconds=0)
    assert output.result["content"].endswith(
        "[pages 1 and 2 were not read]\n[the time did not suffice for all pages]"
    )


@pytest.mark.spec("C26")
def test_pages_beyond_the_limit_are_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MEDIAMILL_DOCUMENT_PAGES", "3")
    path = write_pdf(
        tmp_path / "a.pdf", [[(50, 700, f"This is the text of page {n}")] for n in range(1, 454)]
    )
    output = process(path, tmp_path / "out")
    assert "text of page 3" in output.result["content"]
    assert "text of page 4" not in output.result["content"]
    assert output.result["content"].endswith("[pages 4 to 453 were not read]")
    assert (output.result["facts"]["pages"], output.result["facts"]["pages_read"]) == (453, 3)


@pytest.mark.spec("P8")
def test_pages_that_were_left_out_are_named_in_plain_words() -> None:
    words = [([7], "page 7 was"), ([7, 8], "pages 7 and 8 were"), (range(51, 401), "pages 51 to 400 were")]
    words += [([3, *range(5, 1001), 2000], "pages 3, 5 to 1,000 and 2,000 were")]
    words += [(range(1, 60, 2), "pages 1, 3, 5, 7, 9, 11, 13, 15, 17, 19, 21, 23 and others were")]
    for numbers, told in words:
        assert pages_not_read(spans_of(numbers)) == f"{told} not read"


def test_a_blank_pdf_is_an_empty_document(tmp_path: Path) -> None:
    with pytest.raises(RefusedMediaError, match="empty document"):
        process(write_pdf(tmp_path / "a.pdf", [[], []]), tmp_path / "out")


def test_a_hundred_thousand_pages_are_no_trouble(tmp_path: Path) -> None:
    pdf = PdfFile()
    pdf.add(1, "<< /Type /Catalog /Pages 2 0 R >>")
    branches = 100
    kids = " ".join(f"{3 + n} 0 R" for n in range(branches))
    pdf.add(2, f"<< /Type /Pages /Count 100000 /Kids [{kids}] >>")
    leaf = 3 + branches
    pdf.add(leaf, "<< /Type /Page /MediaBox [0 0 200 200] /Parent 3 0 R >>")
    leaves = " ".join([f"{leaf} 0 R"] * 1000)
    for n in range(branches):
        pdf.add(3 + n, f"<< /Type /Pages /Parent 2 0 R /Count 1000 /Kids [{leaves}] >>")
    path = pdf.write(tmp_path / "a.pdf")
    document = read_pdf(path, Limits())
    assert document.count == 100_000
    assert document.pages_read == 500


def test_a_loop_in_the_page_tree_ends(tmp_path: Path) -> None:
    pdf = PdfFile()
    pdf.add(1, "<< /Type /Catalog /Pages 2 0 R >>")
    pdf.add(2, "<< /Type /Pages /Count 1000000 /Kids [3 0 R 4 0 R] >>")
    pdf.add(3, "<< /Type /Pages /Parent 2 0 R /Count 500000 /Kids [2 0 R 3 0 R] >>")
    pdf.add(4, "<< /Type /Page /Parent 2 0 R /MediaBox [0 0 200 200] >>")
    path = pdf.write(tmp_path / "a.pdf")
    reason = reason_of(lambda: read_pdf(path, Limits()))
    assert reason is None or "damaged" in reason


def test_a_page_of_any_size_is_drawn_small(tmp_path: Path) -> None:
    for box in ("0 0 1000000 1000000", "0 0 1000000 1", "0 0 1e30 1e30", "0 0 0 0", "5 5 5 -5"):
        pdf = pdfium.PdfDocument(write_pdf(tmp_path / "a.pdf", [[(50, 700, "text")]], box=box))
        try:
            pixels = render(pdf.get_page(0))
        except pdfium.PdfiumError:
            continue
        finally:
            pdf.close()
        assert pixels.shape[0] * pixels.shape[1] <= 4_100_000
        assert max(pixels.shape) <= 4_001


def test_a_page_that_holds_a_huge_picture_is_not_decoded(tmp_path: Path) -> None:
    pdf = PdfFile()
    pdf.add(1, "<< /Type /Catalog /Pages 2 0 R >>")
    pdf.add(2, "<< /Type /Pages /Count 1 /Kids [3 0 R] >>")
    pdf.add(
        3,
        "<< /Type /Page /Parent 2 0 R /MediaBox [0 0 595 842] /Contents 4 0 R "
        "/Resources << /XObject << /I 5 0 R >> >> >>",
    )
    pdf.add_stream(4, b"q 595 0 0 842 0 0 cm /I Do Q")
    picture = (
        "/Type /XObject /Subtype /Image /Width 50000 /Height 50000 /ColorSpace /DeviceRGB /BitsPerComponent 8"
    )
    pdf.add_stream(5, b"\0" * 1000, picture)
    path = pdf.write(tmp_path / "a.pdf")

    def never(number: int, render: object) -> NoReturn:
        raise AssertionError(number)

    document = read_pdf(path, Limits(), never)
    assert document.warnings == ["a picture on page 1 is too large to be read"]


# RC4 with 40 bits, made with the password "secret"; the hashes need not be right to be refused.
ENCRYPTED = (
    "/Encrypt << /Filter /Standard /V 1 /R 2 /P -4 /O <" + "41" * 32 + "> /U <" + "42" * 32 + "> >> "
    "/ID [<00112233445566778899aabbccddeeff> <00112233445566778899aabbccddeeff>]"
)


def test_a_pdf_with_a_password_says_so(tmp_path: Path) -> None:
    path = write_pdf(tmp_path / "a.pdf", [[(50, 700, "secret text")]], trailer=ENCRYPTED)
    with pytest.raises(RefusedMediaError, match="protected by a password"):
        process(path, tmp_path / "out")


def test_a_wrong_cross_reference_table_is_repaired(tmp_path: Path) -> None:
    path = write_pdf(tmp_path / "a.pdf", [[(50, 700, "This text is still to be found")]])
    data = path.read_bytes()
    path.write_bytes(data.replace(b"0000000", b"0009999"))
    assert read_pdf(path, Limits()).parts[0].text == "This text is still to be found"


def test_a_truncated_pdf_is_read_or_refused_with_a_reason(tmp_path: Path) -> None:
    pages = [[(50, 700, f"This is page {n}")] for n in range(5)]
    data = write_pdf(tmp_path / "a.pdf", pages).read_bytes()
    for share in range(1, 40):
        (tmp_path / "b.pdf").write_bytes(data[: len(data) * share // 40])
        reason = reason_of(lambda: read_pdf(tmp_path / "b.pdf", Limits()))
        assert reason is None or "PDF file is damaged" in reason


def test_a_page_turned_on_its_side_is_still_read(tmp_path: Path) -> None:
    path = write_pdf(tmp_path / "a.pdf", [[(50, 700 - 20 * n, f"This is line {n} of it") for n in range(3)]])
    path.write_bytes(path.read_bytes().replace(b"/Type /Page /", b"/Type /Page /Rotate 90 /"))
    text = read_pdf(path, Limits()).parts[0].text
    assert text.splitlines() == [f"This is line {n} of it" for n in range(3)]


def test_pictures_in_memory_of_a_scan_are_rgb(scanned: Path) -> None:
    pdf = pdfium.PdfDocument(io.BytesIO(scanned.read_bytes()))
    pixels = render(pdf.get_page(0))
    assert pixels.shape[2] == 3
    assert pixels.mean() > 200
    pdf.close()
