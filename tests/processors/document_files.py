"""Small documents for the tests, written by hand: what is in them is in the test."""

from __future__ import annotations

import zipfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from mediamill.media.errors import MediaError
from mediamill.processors.contract import ProcessorInput, ProcessorOutput
from mediamill.processors.document import DocumentProcessor

WORD = "http://schemas.openxmlformats.org/wordprocessingml/2006/main"
SHEET = "http://schemas.openxmlformats.org/spreadsheetml/2006/main"
SLIDE = "http://schemas.openxmlformats.org/presentationml/2006/main"
DRAWING = "http://schemas.openxmlformats.org/drawingml/2006/main"
LINKS = "http://schemas.openxmlformats.org/officeDocument/2006/relationships"
PACKAGE = "http://schemas.openxmlformats.org/package/2006/relationships"
CORE = (
    '<cp:coreProperties xmlns:cp="http://schemas.openxmlformats.org/package/2006/metadata/core-properties" '
    'xmlns:dc="http://purl.org/dc/elements/1.1/" xmlns:dcterms="http://purl.org/dc/terms/">'
    "<dc:title>{title}</dc:title><dc:creator>Ada Lovelace</dc:creator>"
    "<dcterms:created>2026-03-01T10:00:00Z</dcterms:created></cp:coreProperties>"
)
TYPES = (
    '<Types xmlns="http://schemas.openxmlformats.org/package/2006/content-types"><Override '
    'PartName="/{part}" ContentType="application/vnd.openxmlformats-officedocument.{kind}.main+xml"/></Types>'
)


def write_zip(path: Path, members: Mapping[str, str | bytes]) -> Path:
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in members.items():
            # A mimetype must be readable without unpacking anything.
            archive.writestr(name, data, zipfile.ZIP_STORED if name == "mimetype" else None)
    return path


def links(*entries: tuple[str, str, str]) -> str:
    """The links of a member: id, kind, target."""
    told = "".join(
        f'<Relationship Id="{key}" Type="{LINKS}/{kind}" Target="{target}"/>' for key, kind, target in entries
    )
    return f'<Relationships xmlns="{PACKAGE}">{told}</Relationships>'


def paragraph(text: str, properties: str = "") -> str:
    return f"<w:p>{f'<w:pPr>{properties}</w:pPr>' if properties else ''}<w:r><w:t>{text}</w:t></w:r></w:p>"


def write_docx(
    path: Path, body: str, more: Mapping[str, str | bytes] | None = None, *extra: tuple[str, str, str]
) -> Path:
    return write_zip(
        path,
        {
            "[Content_Types].xml": TYPES.format(part="word/document.xml", kind="wordprocessingml.document"),
            "_rels/.rels": links(("r1", "officeDocument", "word/document.xml")),
            "word/document.xml": f'<w:document xmlns:w="{WORD}"><w:body>{body}</w:body></w:document>',
            "word/_rels/document.xml.rels": links(*extra),
            "docProps/core.xml": CORE.format(title="The Engine"),
            **(more or {}),
        },
    )


def write_xlsx(
    path: Path, sheets: Mapping[str, str], *, strings: Sequence[str] = (), styles: str = "", book: str = ""
) -> Path:
    listed = "".join(f'<sheet name="{name}" sheetId="{n}" r:id="s{n}"/>' for n, name in enumerate(sheets, 1))
    members: dict[str, str] = {
        "[Content_Types].xml": TYPES.format(part="xl/workbook.xml", kind="spreadsheetml.sheet"),
        "_rels/.rels": links(("r1", "officeDocument", "xl/workbook.xml")),
        "xl/workbook.xml": f'<workbook xmlns="{SHEET}" xmlns:r="{LINKS}">{book}<sheets>{listed}</sheets></workbook>',
        "xl/_rels/workbook.xml.rels": links(
            ("strings", "sharedStrings", "sharedStrings.xml"),
            ("styles", "styles", "styles.xml"),
            *((f"s{n}", "worksheet", f"worksheets/sheet{n}.xml") for n in range(1, len(sheets) + 1)),
        ),
        "xl/sharedStrings.xml": f'<sst xmlns="{SHEET}">'
        + "".join(f"<si><t>{text}</t></si>" for text in strings)
        + "</sst>",
        "xl/styles.xml": f'<styleSheet xmlns="{SHEET}">{styles}</styleSheet>',
    }
    for n, rows in enumerate(sheets.values(), 1):
        members[f"xl/worksheets/sheet{n}.xml"] = (
            f'<worksheet xmlns="{SHEET}"><sheetData>{rows}</sheetData></worksheet>'
        )
    return write_zip(path, members)


def write_odf(path: Path, kind: str, body: str) -> Path:
    names = " ".join(
        f'xmlns:{name}="urn:oasis:names:tc:opendocument:xmlns:{name}:1.0"'
        for name in ("office", "text", "table", "presentation")
    )
    draw = 'xmlns:draw="urn:oasis:names:tc:opendocument:xmlns:drawing:1.0"'
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("mimetype", f"application/vnd.oasis.opendocument.{kind}", zipfile.ZIP_STORED)
        archive.writestr(
            "content.xml",
            f"<office:document-content {names} {draw}><office:body><office:{kind}>{body}</office:{kind}>"
            "</office:body></office:document-content>",
        )
    return path


class PdfFile:
    """A PDF written by hand: objects by number, with a right cross-reference table."""

    def __init__(self) -> None:
        self.objects: dict[int, bytes] = {}

    def add(self, number: int, body: str | bytes) -> None:
        self.objects[number] = body.encode("latin-1") if isinstance(body, str) else body

    def add_stream(self, number: int, data: bytes, entries: str = "") -> None:
        self.add(number, f"<< /Length {len(data)} {entries} >>\nstream\n".encode() + data + b"\nendstream")

    def write(self, path: Path, trailer: str = "") -> Path:
        data = bytearray(b"%PDF-1.7\n%\xe2\xe3\xcf\xd3\n")
        places = {}
        for number in sorted(self.objects):
            places[number] = len(data)
            data += f"{number} 0 obj\n".encode() + self.objects[number] + b"\nendobj\n"
        start, size = len(data), max(self.objects) + 1
        table = [b"0000000000 65535 f \n"]
        table += [
            f"{places[n]:010} 00000 n \n".encode() if n in places else b"0000000000 65535 f \n"
            for n in range(1, size)
        ]
        data += f"xref\n0 {size}\n".encode() + b"".join(table)
        data += f"trailer\n<< /Size {size} /Root 1 0 R {trailer} >>\nstartxref\n{start}\n%%EOF\n".encode()
        path.write_bytes(data)
        return path


Words = tuple[float, float, str]  # x, y from below, text


def write_pdf(
    path: Path, pages: Sequence[Sequence[Words]], *, box: str = "0 0 595 842", trailer: str = ""
) -> Path:
    """Pages of text in Helvetica at 11 points, in the order given."""
    pdf = PdfFile()
    numbers = [10 + 2 * n for n in range(len(pages))]
    pdf.add(1, "<< /Type /Catalog /Pages 2 0 R >>")
    kids = " ".join(f"{number} 0 R" for number in numbers)
    pdf.add(2, f"<< /Type /Pages /Count {len(pages)} /Kids [{kids}] >>")
    pdf.add(3, "<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica /Encoding /WinAnsiEncoding >>")
    pdf.add(4, "<< /Title (The Title) /Author (Ada) /CreationDate (D:20260301100000Z) >>")
    for number, words in zip(numbers, pages, strict=True):
        pdf.add(
            number,
            f"<< /Type /Page /Parent 2 0 R /MediaBox [{box}] /Contents {number + 1} 0 R "
            "/Resources << /Font << /F1 3 0 R >> >> >>",
        )
        shown = [f"BT /F1 11 Tf {x} {y} Td ({escape(text)}) Tj ET" for x, y, text in words]
        pdf.add_stream(number + 1, "\n".join(shown).encode("cp1252"))
    return pdf.write(path, f"/Info 4 0 R {trailer}")


def escape(text: str) -> str:
    return text.replace("\\", "\\\\").replace("(", "\\(").replace(")", "\\)")


class Reports:
    """What a processor reported."""

    def __init__(self) -> None:
        self.checkpoints: list[Any] = []
        self.steps: list[str] = []

    def __call__(
        self,
        step: str | None = None,
        percent: float | None = None,
        parts: Mapping[str, Any] | None = None,
        checkpoint: Any = None,
    ) -> None:
        if checkpoint is not None:
            self.checkpoints.append(checkpoint)
        if step is not None:
            self.steps.append(step)


def reason_of(read: Callable[[], object]) -> str | None:
    """Why a file was refused, or None if it was read. Any other failure is one of the test."""
    try:
        read()
    except MediaError as error:
        return error.message
    return None


def process(
    path: Path,
    folder: Path,
    *,
    payload: Mapping[str, Any] | None = None,
    checkpoint: Any = None,
    reports: Reports | None = None,
    timeout_seconds: float = 120,
) -> ProcessorOutput:
    """Run the document processor as a worker would, in this process."""
    folder.mkdir(exist_ok=True)
    processor = DocumentProcessor((), timeout_seconds)
    return processor.process(
        ProcessorInput(payload or {}, None, path, folder, checkpoint, 1, reports or Reports())
    )
