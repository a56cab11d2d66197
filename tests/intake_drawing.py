"""How the papers of the intake tests are drawn: PDF pages, scans, photos, workbooks; and the fields wanted of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from PIL import Image, ImageDraw, ImageFilter, ImageFont

from tests.processors.document_files import PdfFile, Words, escape, write_xlsx

CATALOG: list[dict[str, Any]] = [
    {"name": "invoice_number", "type": "text", "label": "Invoice number", "description": "", "unit": ""},
    {"name": "invoice_date", "type": "date", "label": "Invoice date", "description": "", "unit": ""},
    {"name": "due_date", "type": "date", "label": "Due date", "description": "", "unit": ""},
    {"name": "total", "type": "amount", "label": "Total", "description": "with all taxes", "unit": "EUR"},
    {"name": "vat", "type": "amount", "label": "VAT", "description": "the tax", "unit": "EUR"},
    {"name": "net", "type": "amount", "label": "Net amount", "description": "before taxes", "unit": "EUR"},
    {"name": "iban", "type": "text", "label": "IBAN", "description": "", "unit": ""},
    {"name": "customer_number", "type": "text", "label": "Customer number", "description": "", "unit": ""},
    {"name": "serial_number", "type": "text", "label": "Serial number", "description": "", "unit": ""},
    {"name": "manufacturer", "type": "text", "label": "Manufacturer", "description": "", "unit": ""},
    {"name": "power", "type": "number", "label": "Rated power", "description": "", "unit": "kW"},
    {"name": "voltage", "type": "number", "label": "Voltage", "description": "", "unit": "V"},
    {"name": "weight", "type": "number", "label": "Weight", "description": "", "unit": "kg"},
    {"name": "meter_number", "type": "text", "label": "Meter number", "description": "", "unit": ""},
    {"name": "meter_reading", "type": "number", "label": "Meter reading", "description": "", "unit": "kWh"},
    {"name": "contract_number", "type": "text", "label": "Contract number", "description": "", "unit": ""},
    {"name": "start_date", "type": "date", "label": "Start date", "description": "", "unit": ""},
    {"name": "subject", "type": "text", "label": "Subject", "description": "", "unit": ""},
    {"name": "letter_date", "type": "date", "label": "Date", "description": "of a letter", "unit": ""},
    {"name": "signed", "type": "boolean", "label": "Signed", "description": "", "unit": ""},
]


@dataclass(frozen=True, slots=True)
class Document:
    """`expected`: canonical values by field. `ending`: `completed`, `unsupported` or `failed`."""

    path: Path
    kind: str
    expected: Mapping[str, str] = field(default_factory=dict)
    ending: str = "completed"


def text_pdf(path: Path, pages: Sequence[Sequence[Words]], title: str = "", size: int = 11) -> Path:
    """Pages of text in Helvetica."""
    pdf = PdfFile()
    numbers = [10 + 2 * n for n in range(len(pages))]
    pdf.add(1, "<< /Type /Catalog /Pages 2 0 R >>")
    kids = " ".join(f"{number} 0 R" for number in numbers)
    pdf.add(2, f"<< /Type /Pages /Count {len(pages)} /Kids [{kids}] >>")
    pdf.add(3, "<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica /Encoding /WinAnsiEncoding >>")
    pdf.add(4, f"<< /Title ({escape(title)}) >>")
    for number, words in zip(numbers, pages, strict=True):
        pdf.add(
            number,
            f"<< /Type /Page /Parent 2 0 R /MediaBox [0 0 595 842] /Contents {number + 1} 0 R "
            "/Resources << /Font << /F1 3 0 R >> >> >>",
        )
        shown = [f"BT /F1 {size} Tf {x} {y} Td ({escape(text)}) Tj ET" for x, y, text in words]
        pdf.add_stream(number + 1, "\n".join(shown).encode("cp1252"))
    return pdf.write(path, "/Info 4 0 R")


def table(
    top: float, columns: Sequence[float], rows: Sequence[Sequence[str]], step: float = 18
) -> list[Words]:
    """Cells at the left edges of their columns."""
    return [
        (x, top - step * number, cell)
        for number, row in enumerate(rows)
        for x, cell in zip(columns, row, strict=False)
        if cell
    ]


def lines(top: float, texts: Sequence[str], x: float = 50, step: float = 16) -> list[Words]:
    """One below the other."""
    return [(x, top - step * number, text) for number, text in enumerate(texts) if text]


def scan(
    texts: Sequence[str], *, size: tuple[int, int] = (1240, 1754), letters: int = 30, tilt: float = 0
) -> Image.Image:
    """A page as a scanner sees it: grey noise, a little out of focus, not quite straight."""
    image = Image.new("L", size, 250)
    draw = ImageDraw.Draw(image)
    for number, text in enumerate(texts):
        draw.text((110, 110 + 55 * number), text, fill=25, font=ImageFont.load_default(letters))
    noise = Image.effect_noise(size, 12)
    blended = Image.blend(image, noise, 0.06).rotate(tilt, fillcolor=245, resample=Image.Resampling.BICUBIC)
    return blended.filter(ImageFilter.GaussianBlur(0.6)).convert("RGB")


def meter(texts: Sequence[tuple[tuple[int, int], int, str]], dial: str) -> Image.Image:
    """A meter on a wall: a grey box, a dark dial with bright digits, small print."""
    image = Image.new("RGB", (1200, 1500), (196, 188, 172))
    draw = ImageDraw.Draw(image)
    draw.rounded_rectangle((180, 160, 1020, 1340), 40, fill=(232, 234, 236), outline=(90, 90, 90), width=8)
    draw.rectangle((280, 460, 920, 640), fill=(24, 26, 28))
    draw.text((320, 490), dial, fill=(240, 240, 232), font=ImageFont.load_default(92))
    for place, letters, text in texts:
        draw.text(place, text, fill=(40, 40, 44), font=ImageFont.load_default(letters))
    noise = Image.effect_noise(image.size, 18).convert("RGB")
    return Image.blend(image, noise, 0.05).filter(ImageFilter.GaussianBlur(0.8))


def write_workbook(path: Path, sheets: Mapping[str, Sequence[Sequence[str]]]) -> Path:
    """Sheets of texts and numbers."""

    def cell(column: int, row: int, text: str) -> str:
        place = f"{'ABCDEFGH'[column]}{row}"
        try:
            float(text)
        except ValueError:
            return f'<c r="{place}" t="inlineStr"><is><t>{text}</t></is></c>' if text else ""
        return f'<c r="{place}"><v>{text}</v></c>'

    told = {
        name: "".join(
            f'<row r="{number}">'
            + "".join(cell(column, number, text) for column, text in enumerate(row))
            + "</row>"
            for number, row in enumerate(rows, 1)
        )
        for name, rows in sheets.items()
    }
    return write_xlsx(path, told)
