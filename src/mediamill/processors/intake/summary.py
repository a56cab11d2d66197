"""What a file is, in a sentence, where no model says it: its kind, its size, its subject. No more than is known."""

from __future__ import annotations

import re
from collections.abc import Sequence

from mediamill.processors.document.document_text import one_line, plural
from mediamill.processors.document.wording import NAMES
from mediamill.processors.intake.source import Source
from mediamill.processors.intake.source_page import SourcePage

LOOKED_CHARACTERS = 3_000
LOOKED_ROWS, SHORT = 60, 60  # of a page; characters of a cell that may be a heading
LINE_CHARACTERS = 120
# Longer words first: a credit note says that it is one of an invoice.
KINDS = {
    "Credit note": r"credit note|gutschrift",
    "Delivery note": r"delivery note|packing slip|lieferschein",
    "Order confirmation": r"order confirmation|auftragsbestätigung",
    "Reminder": r"payment reminder|zahlungserinnerung|mahnung",
    "Quotation": r"quotation|quote|angebot|kostenvoranschlag",
    "Invoice": r"invoice|rechnung(?:s\w+)?|facture",
    "Receipt": r"receipt|quittung|kassenbon",
    "Purchase order": r"purchase order|bestellung",
    "Account statement": r"account statement|bank statement|kontoauszug",
    "Payslip": r"payslip|gehaltsabrechnung|lohnabrechnung",
    "Data sheet": r"data ?sheet|datenblatt|technical data|technische daten|specifications?",
    "Contract": r"contract|agreement|\w{0,12}vertrag",
    "Certificate": r"certificate|zertifikat|bescheinigung",
    "Meter reading": r"meter reading|zählerstand|ablesung",
    "Minutes": r"minutes of|protokoll",
}
FOUND = {name: re.compile(rf"(?:{words})(?!\w)", re.IGNORECASE) for name, words in KINDS.items()}
LABEL = re.compile(r"[\s./-]*(?:number|no|nr|id|date|nummer|datum|vom|#|:)", re.IGNORECASE)
GREETING = re.compile(
    r"^(?:dear|sehr geehrte|yours (?:sincerely|faithfully)|mit freundlichen gr)", re.IGNORECASE
)
SUBJECT = re.compile(r"^\s*(?:subject|betreff|betr\.?|re|objet)\s*:\s*(\S.*)$", re.IGNORECASE | re.MULTILINE)


def document_kind(pages: Sequence[SourcePage]) -> str:
    """What kind of document it calls itself in a heading, else in a label; empty if it does not."""
    rows = [row for page in pages[:2] for row in page.rows[:LOOKED_ROWS]]
    cells = [text for row in rows for cell in row if 0 < len(text := cell.text.strip("# ")) <= SHORT]
    begins = [(name, text, found) for text in cells for name in KINDS if (found := FOUND[name].match(text))]
    headings = [name for name, text, found in begins if not LABEL.match(text, found.end())]
    if headings:
        return headings[0]
    if any(GREETING.search(text) for text in cells):
        return "Letter"
    return begins[0][0] if begins else ""


def summarise(source: Source) -> str:
    """For people who look at a list of files."""
    if source.kind == "image":
        return _image_summary(source)
    document = source.document
    name = NAMES.get(document.format, "Text") if document else "Text"
    kind = document_kind(source.pages)
    if document and document.format == "eml":
        name, kind = "Mail", "" if kind == "Letter" else kind  # a greeting alone makes no letter of a mail
    size = f", {plural(document.count, document.unit)}" if document and document.count else ""
    head = f"{kind} ({name}{size})" if kind else f"{name}{size}"
    about = _subject(source)
    return f"{head}: {about}" if about else f"{head}."


def _image_summary(source: Source) -> str:
    first = source.content.partition("\n")[0]
    text = one_line(" ".join(source.pages[0].text.split()), LINE_CHARACTERS)
    return f"Image. {first}" + (f" Text: {text}" if text else "")


def _subject(source: Source) -> str:
    """The subject line, the title of the file, or the first line that has words."""
    text = "\n".join(page.text for page in source.pages[:2])[:LOOKED_CHARACTERS]
    if found := SUBJECT.search(text):
        return one_line(found[1], LINE_CHARACTERS)
    if source.document and " " in source.document.title:  # else it is the name of some file
        return one_line(source.document.title, LINE_CHARACTERS)
    lines = (line.strip(" #|-") for line in text.splitlines())
    return one_line(next((line for line in lines if sum(map(str.isalpha, line)) >= 3), ""), LINE_CHARACTERS)
