"""Thirty mixed files as people hand them in, and what stands in them: for the tests of intake, and for its story.

Nothing is read back from the code under test: the expected values are written by hand, beside the documents.
"""

from __future__ import annotations

import random
import shutil
from collections.abc import Callable
from pathlib import Path

from tests import intake_invoices as invoices
from tests import intake_papers as papers
from tests.intake_drawing import CATALOG, Document, scan

__all__ = ["CATALOG", "MAKERS", "Document", "make_documents", "scan"]


def make_documents(folder: Path) -> list[Document]:
    """Write all of them."""
    folder.mkdir(parents=True, exist_ok=True)
    documents = [make(folder) for make in MAKERS]
    twin = folder / "copy of invoice.pdf"
    shutil.copyfile(documents[0].path, twin)
    documents.append(Document(twin, "twin", documents[0].expected))
    (folder / "empty.pdf").write_bytes(b"")
    documents.append(Document(folder / "empty.pdf", "empty", ending="failed"))
    (folder / "broken.pdf").write_bytes(b"%PDF-1.7\n" + random.Random(7).randbytes(3_000))
    documents.append(Document(folder / "broken.pdf", "broken", ending="failed"))
    (folder / "program.bin").write_bytes(b"\x7fELF\x02\x01\x01" + b"\0" * 200)
    documents.append(Document(folder / "program.bin", "unsupported", ending="unsupported"))
    return documents


MAKERS: tuple[Callable[[Path], Document], ...] = (
    invoices.invoice_us,
    invoices.invoice_uk,
    invoices.invoice_de,
    invoices.invoice_ch,
    invoices.invoice_long,
    invoices.invoice_word,
    invoices.invoice_web,
    invoices.invoice_mail,
    invoices.invoice_scanned,
    papers.letter_scanned,
    papers.letter_scanned_de,
    papers.letter,
    papers.sheet_en,
    papers.sheet_de,
    papers.sheet_workbook,
    papers.workbook_form,
    papers.workbook_list,
    papers.table_csv,
    papers.contract_en,
    papers.contract_de,
    papers.meter_photo,
    papers.meter_photo_de,
    papers.photo,
    papers.delivery_note,
    invoices.reminder,
    papers.notes,
)
