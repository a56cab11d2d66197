"""Invoices in English and German, of many layouts, and what stands in them."""

from __future__ import annotations

from pathlib import Path

from tests.intake_drawing import Document, lines, scan, table, text_pdf
from tests.processors.document_files import paragraph, write_docx


def invoice_us(folder: Path) -> Document:
    words = [
        *lines(780, ["Northwind Tools Inc.", "12 Harbor Street, Boston, MA 02110"]),
        (420, 780, "INVOICE"),
        *lines(
            740, ["Invoice number: INV-2025-0417", "Invoice date: 03/14/2025", "Due date: 04/13/2025"], x=360
        ),
        *lines(740, ["Bill to:", "Ada Lovelace", "5 Garden Row", "Cambridge, MA 02139"]),
        *table(
            620,
            (50, 300, 380, 480),
            [
                ("Description", "Qty", "Unit price", "Amount"),
                ("Torque wrench", "2", "$149.00", "$298.00"),
                ("Calibration", "1", "$1,080.00", "$1,080.00"),
                ("", "", "Subtotal", "$1,378.00"),
                ("", "", "Sales tax 6.25%", "$86.13"),
                ("", "", "Total due", "$1,464.13"),
            ],
        ),
    ]
    path = text_pdf(folder / "invoice.pdf", [words], "Invoice INV-2025-0417")
    expected = {
        "invoice_number": "INV-2025-0417",
        "invoice_date": "2025-03-14",
        "due_date": "2025-04-13",
        "net": "1378.00",
        "vat": "86.13",
        "total": "1464.13",
    }
    return Document(path, "invoice", expected)


def invoice_uk(folder: Path) -> Document:
    words = [
        *lines(790, ["Pennine Paper Ltd", "Mill Lane 4, Leeds LS1 4AP"]),
        *table(
            710,
            (50, 200, 340, 460),
            [
                ("Invoice no.", "Date of issue", "Customer no.", "Payment due"),
                ("PP/10233", "3 March 2025", "C-88120", "2 April 2025"),
            ],
        ),
        *table(
            640,
            (50, 330, 450),
            [
                ("Item", "Quantity", "Price"),
                ("A4 paper, 80 g, box", "40", "£9.50"),
                ("Envelopes C5", "10", "£4.20"),
            ],
        ),
        *table(
            540, (330, 450), [("Net total", "£422.00"), ("VAT (20%)", "£84.40"), ("Grand total", "£506.40")]
        ),
        (50, 440, "Please pay to IBAN GB29 NWBK 6016 1331 9268 19 within 30 days."),
    ]
    path = text_pdf(folder / "pennine-10233.pdf", [words])
    expected = {
        "invoice_number": "PP/10233",
        "invoice_date": "2025-03-03",
        "due_date": "2025-04-02",
        "customer_number": "C-88120",
        "net": "422.00",
        "vat": "84.40",
        "total": "506.40",
        "iban": "GB29NWBK60161331926819",
    }
    return Document(path, "invoice", expected)


def invoice_de(folder: Path) -> Document:
    words = [
        *lines(790, ["Muster Werkzeugbau GmbH", "Industriestraße 7, 70565 Stuttgart"]),
        *table(
            720,
            (330, 450),
            [
                ("Rechnungs-Nr.:", "RE-2025-0099"),
                ("Rechnungsdatum:", "07.02.2025"),
                ("Kunden-Nr.:", "40117"),
                ("Lieferdatum:", "05.02.2025"),
            ],
        ),
        (50, 640, "Rechnung"),
        *table(
            600,
            (50, 90, 330, 450),
            [
                ("Pos.", "Bezeichnung", "Menge", "Betrag"),
                ("1", "Fräsarbeiten nach Zeichnung", "12,5 h", "1.062,50 €"),
                ("2", "Material", "1", "170,00 €"),
            ],
        ),
        *table(
            520,
            (330, 450),
            [("Nettobetrag", "1.232,50 €"), ("zzgl. MwSt. 19 %", "234,18 €"), ("Gesamtbetrag", "1.466,68 €")],
        ),
        *lines(
            430,
            [
                "Zahlbar bis 09.03.2025 ohne Abzug.",
                "Commerzbank  IBAN: DE89 3704 0044 0532 0130 00  BIC: COBADEFFXXX",
            ],
        ),
        (50, 380, "USt-IdNr.: DE811907980   Steuernummer: 99/123/45678"),
    ]
    path = text_pdf(folder / "Rechnung RE-2025-0099.pdf", [words])
    expected = {
        "invoice_number": "RE-2025-0099",
        "invoice_date": "2025-02-07",
        "due_date": "2025-03-09",
        "customer_number": "40117",
        "net": "1232.50",
        "vat": "234.18",
        "total": "1466.68",
        "iban": "DE89370400440532013000",
    }
    return Document(path, "invoice", expected)


def invoice_ch(folder: Path) -> Document:
    words = [
        *lines(790, ["Alpenstrom AG", "Bahnhofstrasse 1, 8001 Zürich"]),
        *table(
            700,
            (50, 220, 380),
            [
                ("Rechnungsnummer", "Datum der Rechnung", "Zahlbar bis"),
                ("2025-5512", "1. März 2025", "31. März 2025"),
            ],
        ),
        *table(
            620,
            (50, 420),
            [
                ("Photovoltaik-Montage pauschal", "CHF 18'400.00"),
                ("Zwischensumme", "CHF 18'400.00"),
                ("MWST 8,1 %", "CHF 1'490.40"),
                ("Zu zahlender Betrag", "CHF 19'890.40"),
            ],
        ),
        (50, 500, "IBAN CH93 0076 2011 6238 5295 7"),
    ]
    path = text_pdf(folder / "alpenstrom.pdf", [words])
    expected = {
        "invoice_number": "2025-5512",
        "invoice_date": "2025-03-01",
        "due_date": "2025-03-31",
        "net": "18400.00",
        "vat": "1490.40",
        "total": "19890.40",
        "iban": "CH9300762011623852957",
    }
    return Document(path, "invoice", expected)


def invoice_long(folder: Path) -> Document:
    """The sums are on the third page."""
    first = [
        *lines(790, ["Hansa Logistik KG", "", "Rechnung Nr. HL 20250311", "vom 11.03.2025", ""]),
        *lines(700, ["Rechnungsdatum: 11.03.2025", "Kundennummer: D-7781"]),
    ]
    rows = [(f"{n}", f"Transport Auftrag {7000 + n}", f"{40 + n},00 €") for n in range(1, 61)]
    summing = table(
        760,
        (50, 420),
        [("Summe netto", "4.230,00 €"), ("USt 19%", "803,70 €"), ("Rechnungsbetrag", "5.033,70 €")],
    )
    pages = [
        [*first, *table(640, (50, 90, 420), rows[:30], 16)],
        table(780, (50, 90, 420), rows[30:], 16),
        summing,
    ]
    path = text_pdf(folder / "hansa.pdf", pages)
    expected = {
        "invoice_number": "HL 20250311",
        "invoice_date": "2025-03-11",
        "customer_number": "D-7781",
        "net": "4230.00",
        "vat": "803.70",
        "total": "5033.70",
    }
    return Document(path, "invoice", expected)


def invoice_word(folder: Path) -> Document:
    def row(*cells: str) -> str:
        return "<w:tr>" + "".join(f"<w:tc>{paragraph(cell)}</w:tc>" for cell in cells) + "</w:tr>"

    body = (
        paragraph("Rechnung")
        + paragraph("Tischlerei Holzinger e.K., Am Anger 3, 99084 Erfurt")
        + "<w:tbl>"
        + row("Rechnungsnummer", "H-312")
        + row("Rechnungsdatum", "15. Januar 2025")
        + row("Fällig am", "14. Februar 2025")
        + "</w:tbl>"
        + "<w:tbl>"
        + row("Leistung", "Preis")
        + row("Eichentisch", "1.890,00 EUR")
        + row("Summe netto", "1.890,00 EUR")
        + row("Umsatzsteuer 19 %", "359,10 EUR")
        + row("Gesamtsumme", "2.249,10 EUR")
        + "</w:tbl>"
        + paragraph("Bankverbindung: IBAN DE02 1203 0000 0000 2020 51")
    )
    path = write_docx(folder / "Rechnung H-312.docx", body)
    expected = {
        "invoice_number": "H-312",
        "invoice_date": "2025-01-15",
        "due_date": "2025-02-14",
        "net": "1890.00",
        "vat": "359.10",
        "total": "2249.10",
        "iban": "DE02120300000000202051",
    }
    return Document(path, "invoice", expected)


def invoice_web(folder: Path) -> Document:
    page = """<!doctype html><html><head><title>Your invoice</title></head><body><h1>Invoice</h1>
<p>Cloudberry Hosting B.V.</p><table><tr><td>Invoice ID</td><td>CB-771204</td></tr>
<tr><td>Issued on</td><td>2025-06-01</td></tr><tr><td>Pay by</td><td>2025-06-15</td></tr></table>
<table><tr><th>Service</th><th>Price</th></tr><tr><td>Server, monthly</td><td>€ 41.30</td></tr>
<tr><td>Subtotal</td><td>€ 41.30</td></tr><tr><td>VAT 21%</td><td>€ 8.67</td></tr>
<tr><td>Amount due</td><td>€ 49.97</td></tr></table></body></html>"""
    path = folder / "invoice.html"
    path.write_text(page, encoding="utf-8")
    expected = {
        "invoice_number": "CB-771204",
        "invoice_date": "2025-06-01",
        "due_date": "2025-06-15",
        "net": "41.30",
        "vat": "8.67",
        "total": "49.97",
    }
    return Document(path, "invoice", expected)


def invoice_mail(folder: Path) -> Document:
    text = (
        "From: billing@fibrenet.example\r\nTo: ada@example.org\r\nSubject: Your invoice FN-90311\r\n"
        "Date: Tue, 04 Mar 2025 09:30:00 +0100\r\nContent-Type: text/plain; charset=utf-8\r\n\r\n"
        "Dear customer,\r\n\r\nInvoice no: FN-90311\r\nInvoice date: 4 March 2025\r\nCustomer ID: 552901\r\n"
        "Total amount: EUR 59.90 (incl. VAT: EUR 9.56)\r\n\r\nThe amount will be collected on 18 March 2025.\r\n"
    )
    path = folder / "invoice.eml"
    path.write_bytes(text.encode())
    expected = {
        "invoice_number": "FN-90311",
        "invoice_date": "2025-03-04",
        "customer_number": "552901",
        "total": "59.90",
        "vat": "9.56",
        "letter_date": "2025-03-04",
        "subject": "Your invoice FN-90311",
    }
    return Document(path, "mail", expected)


def invoice_scanned(folder: Path) -> Document:
    texts = [
        "Brightwater Plumbing Ltd",
        "14 Quay Road, Bristol BS1 6TY",
        "",
        "INVOICE",
        "Invoice number: BW-3301",
        "Invoice date: 12 May 2025",
        "Due date: 11 June 2025",
        "",
        "Replacement of boiler valve",
        "Net amount: 310.00 GBP",
        "VAT 20%: 62.00 GBP",
        "Total: 372.00 GBP",
    ]
    path = folder / "scan_0031.pdf"
    scan(texts, tilt=0.4).save(path, "PDF", resolution=150)
    expected = {
        "invoice_number": "BW-3301",
        "invoice_date": "2025-05-12",
        "due_date": "2025-06-11",
        "net": "310.00",
        "vat": "62.00",
        "total": "372.00",
    }
    return Document(path, "scanned invoice", expected)


def either_date(folder: Path) -> Document:
    """12/11/2025 may be December or November: nobody can be sure."""
    words = lines(780, ["Ferro Ltd", "Invoice number: F-88", "Invoice date: 12/11/2025", "Total: EUR 100.00"])
    path = text_pdf(folder / "ferro.pdf", [words])
    return Document(path, "invoice", {"invoice_number": "F-88", "total": "100.00"})


def reminder(folder: Path) -> Document:
    words = [
        *lines(790, ["Muster Werkzeugbau GmbH", "", "Zahlungserinnerung", ""]),
        *table(
            700,
            (50, 180, 300, 420),
            [
                ("Rechnung Nr.", "Rechnungsdatum", "Fällig am", "Betrag"),
                ("RE-2025-0051", "04.01.2025", "03.02.2025", "480,00 €"),
            ],
        ),
        (50, 640, "Bitte überweisen Sie auf DE02 1203 0000 0000 2020 51."),
    ]
    path = text_pdf(folder / "Mahnung.pdf", [words])
    expected = {
        "invoice_number": "RE-2025-0051",
        "invoice_date": "2025-01-04",
        "due_date": "2025-02-03",
        "total": "480.00",
        "iban": "DE02120300000000202051",
    }
    return Document(path, "reminder", expected)
