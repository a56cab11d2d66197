"""Letters, data sheets, workbooks, contracts and photos, and what stands in them."""

from __future__ import annotations

from pathlib import Path

from PIL import Image, ImageDraw

from tests.intake_drawing import Document, lines, meter, scan, table, text_pdf, write_workbook
from tests.processors.document_files import paragraph, write_docx


def letter_scanned(folder: Path) -> Document:
    texts = [
        "City of Ravensburg - Water Office",
        "",
        "Mrs Ada Lovelace",
        "5 Garden Row",
        "",
        "Ravensburg, 3 April 2025",
        "",
        "Subject: Change of your water meter",
        "Contract number: W-2231-77",
        "",
        "Dear Mrs Lovelace,",
        "we will change your water meter in the week after Easter.",
        "Please make sure that the cellar can be reached.",
        "",
        "Yours sincerely,",
        "R. Keller",
    ]
    path = folder / "scan_0032.pdf"
    scan(texts, tilt=-0.3).save(path, "PDF", resolution=150)
    expected = {
        "letter_date": "2025-04-03",
        "subject": "Change of your water meter",
        "contract_number": "W-2231-77",
    }
    return Document(path, "scanned letter", expected)


def letter_scanned_de(folder: Path) -> Document:
    texts = [
        "Stadtwerke Ulm",
        "Karlstrasse 1, 89073 Ulm",
        "",
        "Ulm, den 17. Februar 2025",
        "",
        "Betreff: Neuer Abschlag ab Mai",
        "Kundennummer: 9004417",
        "Vertragsnummer: ST-55120",
        "",
        "Sehr geehrte Damen und Herren,",
        "ab Mai gilt ein neuer Abschlag von 84,00 EUR im Monat.",
        "",
        "Mit freundlichen Gruessen",
    ]
    path = folder / "Scan Stadtwerke.pdf"
    scan(texts).save(path, "PDF", resolution=150)
    expected = {
        "letter_date": "2025-02-17",
        "subject": "Neuer Abschlag ab Mai",
        "customer_number": "9004417",
        "contract_number": "ST-55120",
    }
    return Document(path, "scanned letter", expected)


def letter(folder: Path) -> Document:
    words = lines(
        780,
        [
            "Vogel & Partner Rechtsanwälte",
            "",
            "Herrn Max Beispiel",
            "Lindenweg 9, 50667 Köln",
            "",
            "Köln, 22. Mai 2025",
            "",
            "Betreff: Kündigung des Mietverhältnisses Lindenweg 9",
            "",
            "Sehr geehrter Herr Beispiel,",
            "wir zeigen an, dass uns Frau Sommer mit ihrer Vertretung beauftragt hat.",
            "Das Mietverhältnis endet am 31. August 2025.",
            "",
            "Mit freundlichen Grüßen",
        ],
    )
    path = text_pdf(folder / "Schreiben.pdf", [words])
    expected = {"letter_date": "2025-05-22", "subject": "Kündigung des Mietverhältnisses Lindenweg 9"}
    return Document(path, "letter", expected)


def sheet_en(folder: Path) -> Document:
    words = [
        (50, 790, "Data sheet: Inverter SI-5000"),
        *table(
            740,
            (50, 300, 420),
            [
                ("Parameter", "Value", "Unit"),
                ("Manufacturer", "Solaris Instruments", ""),
                ("Rated power", "5.0", "kW"),
                ("Max. efficiency", "97.6", "%"),
                ("Input voltage", "600", "V"),
                ("Weight", "17.5", "kg"),
                ("Protection class", "IP65", ""),
                ("Serial number", "SI5K-2291-0087", ""),
            ],
        ),
    ]
    path = text_pdf(folder / "SI-5000.pdf", [words])
    expected = {
        "manufacturer": "Solaris Instruments",
        "power": "5.0",
        "voltage": "600",
        "weight": "17.5",
        "serial_number": "SI5K-2291-0087",
    }
    return Document(path, "data sheet", expected)


def sheet_de(folder: Path) -> Document:
    words = [
        (50, 790, "Technische Daten Umwälzpumpe UP 25"),
        *table(
            740,
            (50, 330),
            [
                ("Hersteller", "Pumpenwerk Nord GmbH"),
                ("Nennleistung [W]", "45"),
                ("Nennspannung", "230 V / 50 Hz"),
                ("Gewicht", "2.450 g"),
                ("Fördermenge", "3,2 m³/h"),
                ("Serien-Nr.", "UP25-88/1207"),
            ],
        ),
    ]
    path = text_pdf(folder / "UP25 Datenblatt.pdf", [words])
    expected = {
        "manufacturer": "Pumpenwerk Nord GmbH",
        "power": "0.045",
        "voltage": "230",
        "weight": "2.45",
        "serial_number": "UP25-88/1207",
    }
    return Document(path, "data sheet", expected)


def sheet_workbook(folder: Path) -> Document:
    rows = [
        ("Property", "Value", "Unit"),
        ("Make", "Voltaris", ""),
        ("Output power", "11", "kW"),
        ("Supply voltage", "400", "V"),
        ("Net weight", "8.2", "kg"),
        ("S/N", "VX-100-5532", ""),
    ]
    path = write_workbook(folder / "charger.xlsx", {"Charger": rows})
    expected = {
        "manufacturer": "Voltaris",
        "power": "11",
        "voltage": "400",
        "weight": "8.2",
        "serial_number": "VX-100-5532",
    }
    return Document(path, "data sheet", expected)


def workbook_form(folder: Path) -> Document:
    rows = [
        ("Meter reading form", ""),
        ("", ""),
        ("Customer number", "77120"),
        ("Meter number", "1EMH0010233"),
        ("Date", "2025-12-31"),
        ("Reading (kWh)", "18344.5"),
        ("Signed", "yes"),
    ]
    path = write_workbook(folder / "reading.xlsx", {"Form": rows})
    expected = {
        "customer_number": "77120",
        "meter_number": "1EMH0010233",
        "meter_reading": "18344.5",
        "letter_date": "2025-12-31",
        "signed": "true",
    }
    return Document(path, "spreadsheet", expected)


def workbook_list(folder: Path) -> Document:
    """A list of many: no row is the one that is meant, so nothing must be told with confidence."""
    rows = [
        ("Invoice number", "Invoice date", "Total"),
        ("A-1", "2025-01-03", "12.00"),
        ("A-2", "2025-01-04", "19.50"),
        ("A-3", "2025-01-09", "7.25"),
    ]
    path = write_workbook(folder / "outgoing.xlsx", {"January": rows})
    return Document(path, "spreadsheet")


def table_csv(folder: Path) -> Document:
    path = folder / "meter.csv"
    path.write_text("Zählernummer;Ablesedatum;Zählerstand\n1ITR0089;30.06.2025;4.711,5\n", encoding="utf-8")
    return Document(path, "table", {"meter_number": "1ITR0089", "meter_reading": "4711.5"})


def contract_en(folder: Path) -> Document:
    words = lines(
        780,
        [
            "SERVICE AGREEMENT",
            "",
            "Contract number: SA-2025-118",
            "",
            "between Northwind Tools Inc. (the Provider) and Ada Lovelace (the Customer).",
            "",
            "1. Term. Start date: 1 July 2025. The agreement runs for 24 months.",
            "2. Fees. The customer pays a monthly fee of USD 240.00, due on the first of each month.",
            "3. Notice. Either party may end the agreement with a notice period of 3 months.",
            "",
            "Signed: yes",
        ],
    )
    path = text_pdf(folder / "agreement.pdf", [words])
    expected = {"contract_number": "SA-2025-118", "start_date": "2025-07-01", "signed": "true"}
    return Document(path, "contract", expected)


def contract_de(folder: Path) -> Document:
    body = (
        paragraph("Wartungsvertrag")
        + paragraph("Vertragsnummer: WV-7730")
        + paragraph("zwischen Aufzug Service GmbH und Hausverwaltung Klee.")
        + paragraph("Vertragsbeginn: 01.10.2025")
        + paragraph("Das Entgelt beträgt 89,00 € im Monat zuzüglich Umsatzsteuer.")
        + paragraph("Die Kündigungsfrist beträgt drei Monate.")
    )
    path = write_docx(folder / "Wartungsvertrag.docx", body)
    return Document(path, "contract", {"contract_number": "WV-7730", "start_date": "2025-10-01"})


def meter_photo(folder: Path) -> Document:
    small = [
        ((300, 240), 46, "Electricity meter"),
        ((780, 660), 56, "kWh"),
        ((300, 800), 44, "Meter no. 1EMH0044812"),
    ]
    path = folder / "IMG_2041.jpg"
    meter(small, "014523.7").save(path, "JPEG", quality=88)
    return Document(path, "meter", {"meter_reading": "14523.7", "meter_number": "1EMH0044812"})


def meter_photo_de(folder: Path) -> Document:
    small = [
        ((300, 250), 46, "Drehstromzähler"),
        ((300, 780), 44, "Zähler-Nr. 7 DVZ 3321"),
        ((300, 380), 44, "Zählerstand"),
    ]
    path = folder / "IMG_2042.png"
    meter(small, "0088412 kWh").save(path, "PNG")
    return Document(path, "meter", {"meter_reading": "88412", "meter_number": "7 DVZ 3321"})


def photo(folder: Path) -> Document:
    """A picture with nothing to read."""
    image = Image.new("RGB", (900, 600), (120, 170, 220))
    draw = ImageDraw.Draw(image)
    draw.rectangle((0, 380, 900, 600), fill=(70, 130, 60))
    draw.ellipse((620, 60, 760, 200), fill=(250, 220, 90))
    path = folder / "IMG_2050.jpg"
    image.save(path, "JPEG")
    return Document(path, "photo")


def delivery_note(folder: Path) -> Document:
    text = (
        "LIEFERSCHEIN\n\nLieferschein-Nr.: L-4471\nLieferdatum: 02.02.2025\nKundennummer: 40117\n\n"
        "2 x Drehmomentschlüssel, Seriennummer: DM-99120\nGewicht: 3,8 kg\n"
    )
    path = folder / "lieferschein.txt"
    path.write_text(text, encoding="utf-8")
    return Document(
        path,
        "delivery note",
        {"customer_number": "40117", "serial_number": "DM-99120", "weight": "3.8"},
    )


def notes(folder: Path) -> Document:
    """Prose in which no field stands, though its words do."""
    text = (
        "Notes of the meeting\n\nWe talked about the invoice of last week and its total, which nobody had read.\n"
        "The contract will start when both have signed. The voltage of the new line is not known yet.\n"
        "Power and weight of the pump will be told by the manufacturer.\n"
    )
    path = folder / "notes.md"
    path.write_text(text, encoding="utf-8")
    return Document(path, "notes")
