"""Documents in other words and layouts than the thirty. At first sight the rules had 45 of their 53 values right."""

from __future__ import annotations

from pathlib import Path

from tests.intake_documents import Document
from tests.intake_drawing import lines, meter, scan, table, text_pdf, write_workbook


def make_other_documents(folder: Path) -> list[Document]:
    """Write all of them."""
    return [*_invoices(folder), *_sheets(folder), *_papers(folder), *_pictures(folder)]


def _invoices(folder: Path) -> list[Document]:
    australian = [
        *lines(790, ["ACME Corp", "Tax Invoice"]),
        *table(740, (50, 200), [("Invoice #", "78-2231"), ("Date", "Feb 5, 2025"), ("Customer ID", "AC-12")]),
        *table(
            600, (300, 450), [("Sub-Total", "1,250.00"), ("GST 10%", "125.00"), ("TOTAL AUD", "1,375.00")]
        ),
    ]
    german = [
        *lines(790, ["Elektro Schmitt", "Rechnung Nr. 4471 vom 05.05.2025", "Kd.-Nr. 1180"]),
        *table(
            700, (50, 400), [("Summe", "840,34 €"), ("19% MwSt.", "159,66 €"), ("Endbetrag", "1.000,00 €")]
        ),
        (50, 600, "Zahlungsziel: 19.05.2025"),
    ]
    bill = lines(
        790, ["Bill No: 5521/25     Bill date: 2025/07/30", "Total payable: USD 88", "Account no. 0099-12"]
    )
    french = [
        (50, 790, "Globex S.A."),
        *table(
            740,
            (50, 180, 310, 440),
            [
                ("Facture no", "Date de facture", "Client", "Montant total"),
                ("F-2025-01", "15 janvier 2025", "Dupont", "1 250,00 €"),
            ],
        ),
    ]
    return [
        Document(
            text_pdf(folder / "1.pdf", [australian]),
            "invoice",
            {
                "invoice_number": "78-2231",
                "invoice_date": "2025-02-05",
                "letter_date": "2025-02-05",
                "customer_number": "AC-12",
                "net": "1250.00",
                "vat": "125.00",
                "total": "1375.00",
            },
        ),
        Document(
            text_pdf(folder / "2.pdf", [german]),
            "invoice",
            {
                "invoice_number": "4471",
                "invoice_date": "2025-05-05",
                "customer_number": "1180",
                "net": "840.34",
                "vat": "159.66",
                "total": "1000.00",
                "due_date": "2025-05-19",
            },
        ),
        Document(
            text_pdf(folder / "3.pdf", [bill]),
            "bill",
            {
                "invoice_number": "5521/25",
                "invoice_date": "2025-07-30",
                "total": "88",
                "customer_number": "0099-12",
            },
        ),
        Document(
            text_pdf(folder / "4.pdf", [french]),
            "invoice",
            {"invoice_number": "F-2025-01", "invoice_date": "2025-01-15", "total": "1250.00"},
        ),
    ]


def _sheets(folder: Path) -> list[Document]:
    nameplate = table(
        750,
        (50, 250, 350),
        [
            ("Hersteller / Manufacturer", "Nordwind", ""),
            ("Bemessungsleistung", "7,5", "kW"),
            ("Masse", "112", "kg"),
            ("Fabrik-Nr.", "NW-2019-77", ""),
        ],
    )
    product = table(
        750,
        (50, 250),
        [
            ("Nominal power:", "850 W"),
            ("Supply voltage:", "24 V DC"),
            ("Weight (net):", "1.2 kg"),
            ("Brand:", "Helio"),
        ],
    )
    rows = [
        ("Invoice No", "X-900"),
        ("Issue date", "2025-03-02"),
        ("Net", "100.00"),
        ("VAT 19%", "19.00"),
        ("Gross total", "119.00"),
        ("IBAN", "DE89370400440532013000"),
    ]
    return [
        Document(
            text_pdf(folder / "5.pdf", [[(50, 790, "Typenschild"), *nameplate]]),
            "data sheet",
            {"manufacturer": "Nordwind", "power": "7.5", "weight": "112", "serial_number": "NW-2019-77"},
        ),
        Document(
            text_pdf(folder / "6.pdf", [[(50, 790, "Product specification"), *product]]),
            "data sheet",
            {"power": "0.85", "voltage": "24", "weight": "1.2", "manufacturer": "Helio"},
        ),
        Document(
            write_workbook(folder / "7.xlsx", {"Inv": rows}),
            "spreadsheet",
            {
                "invoice_number": "X-900",
                "invoice_date": "2025-03-02",
                "net": "100",
                "vat": "19",
                "total": "119",
                "iban": "DE89370400440532013000",
            },
        ),
    ]


def _papers(folder: Path) -> list[Document]:
    rent = ["MIETVERTRAG", "Vertrags-Nr. MV 2025/3", "Vermieter: Sonja Klee", "Mietbeginn: 1. August 2025"]
    work = [
        "EMPLOYMENT CONTRACT",
        "Agreement no. EC-17",
        "This agreement begins on September 1, 2025, between A and B.",
    ]
    tax = [
        "Finanzamt Ulm",
        "Ulm, 04.06.2025",
        "",
        "Betreff",
        "Einkommensteuerbescheid 2024",
        "",
        "Sehr geehrter Herr Roth,",
    ]
    (folder / "11.txt").write_text(
        "Zählernummer 1ESY116\nZählerstand 12.345 kWh\nKundennr. 55\n", encoding="utf-8"
    )
    (folder / "12.json").write_text(
        '{\n  "invoice_number": "J-1",\n  "invoice_date": "2025-01-31",\n  "total": 12.5\n}'
    )
    return [
        Document(
            text_pdf(folder / "8.pdf", [lines(790, [*rent, "Unterschrieben: ja"])]),
            "contract",
            {"contract_number": "MV 2025/3", "start_date": "2025-08-01", "signed": "true"},
        ),
        Document(
            text_pdf(folder / "9.pdf", [lines(790, work)]),
            "contract",
            {"contract_number": "EC-17", "start_date": "2025-09-01"},
        ),
        Document(
            text_pdf(folder / "10.pdf", [lines(790, tax)]),
            "letter",
            {"letter_date": "2025-06-04", "subject": "Einkommensteuerbescheid 2024"},
        ),
        Document(
            folder / "11.txt",
            "reading",
            {"meter_number": "1ESY116", "meter_reading": "12345", "customer_number": "55"},
        ),
        Document(
            folder / "12.json",
            "export",
            {"invoice_number": "J-1", "invoice_date": "2025-01-31", "total": "12.5"},
        ),
    ]


def _pictures(folder: Path) -> list[Document]:
    texts = [
        "Autohaus Berg GmbH",
        "Rechnung",
        "Rechnungsnummer   AB-7712",
        "Rechnungsdatum   09.01.2025",
        "Gesamtbetrag   412,30 EUR",
        "inkl. 19 % MwSt.   65,83 EUR",
        "Zahlbar bis 23.01.2025",
    ]
    scan(texts).save(folder / "13.pdf", "PDF", resolution=150)
    small = [((300, 240), 46, "WATER METER"), ((800, 650), 56, "m3"), ((300, 800), 40, "S/N 22-118830")]
    meter(small, "00431.882").save(folder / "14.jpg", "JPEG")
    return [
        Document(
            folder / "13.pdf",
            "scanned invoice",
            {
                "invoice_number": "AB-7712",
                "invoice_date": "2025-01-09",
                "total": "412.30",
                "vat": "65.83",
                "due_date": "2025-01-23",
            },
        ),
        Document(folder / "14.jpg", "meter", {"serial_number": "22-118830"}),
    ]
