"""Word, Excel, PowerPoint and OpenDocument files become readable text; hostile ones end with a reason."""

from __future__ import annotations

import struct
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest

from mediamill.media.errors import DamagedMediaError, MediaTooLargeError, ProtectedMediaError
from mediamill.processors.contract import RefusedMediaError
from mediamill.processors.document.cell_values import format_kind, number_text
from mediamill.processors.document.document_text import DocumentText, Limits
from mediamill.processors.document.docx import read_docx
from mediamill.processors.document.epub import read_epub
from mediamill.processors.document.opendocument import read_odp, read_ods, read_odt
from mediamill.processors.document.pptx import read_pptx
from mediamill.processors.document.xlsx import read_xlsx
from tests.processors.document_files import (
    DRAWING,
    LINKS,
    SLIDE,
    TYPES,
    WORD,
    links,
    paragraph,
    process,
    reason_of,
    write_docx,
    write_odf,
    write_xlsx,
    write_zip,
)

TABLE = "<w:tbl>{}</w:tbl>"


def row(*cells: str) -> str:
    return "<w:tr>" + "".join(f"<w:tc>{cell}</w:tc>" for cell in cells) + "</w:tr>"


def text_of(document: DocumentText) -> str:
    return "\n".join(part.text for part in document.parts)


@pytest.mark.spec("C26")
def test_a_word_document_is_told_with_headings_lists_tables_and_notes(tmp_path: Path) -> None:
    numbered = '<w:numPr><w:ilvl w:val="0"/><w:numId w:val="7"/></w:numPr>'
    body = (
        paragraph("Größe &amp; 你好", '<w:pStyle w:val="berschrift1"/>')
        + paragraph("Plain text, as it is")
        + paragraph("bullet", '<w:numPr><w:ilvl w:val="1"/><w:numId w:val="3"/></w:numPr>')
        + paragraph("one", numbered)
        + paragraph("two", numbered)
        + TABLE.format(
            row(paragraph("Name"), paragraph("Price"))
            + row(paragraph("Nut") + paragraph("M8"), paragraph("0.30"))
        )
        + '<w:p><w:r><w:t>See note</w:t><w:footnoteReference w:id="2"/></w:r>'
        "<w:del><w:r><w:delText>gone</w:delText></w:r></w:del></w:p>"
    )
    names = f'xmlns:w="{WORD}"'
    more = {
        "word/styles.xml": f'<w:styles {names}><w:style w:styleId="berschrift1"><w:name w:val="heading 1"/>'
        "</w:style></w:styles>",
        "word/numbering.xml": f'<w:numbering {names}><w:abstractNum w:abstractNumId="1"><w:lvl w:ilvl="0">'
        '<w:numFmt w:val="decimal"/></w:lvl></w:abstractNum><w:num w:numId="7"><w:abstractNumId w:val="1"/>'
        "</w:num></w:numbering>",
        "word/footnotes.xml": f'<w:footnotes {names}><w:footnote w:id="2">{paragraph("The note")}</w:footnote>'
        "</w:footnotes>",
        "word/header1.xml": f"<w:hdr {names}>{paragraph('ACME Ltd')}</w:hdr>",
        "word/comments.xml": f'<w:comments {names}><w:comment w:id="0" w:author="Bob">{paragraph("Really?")}'
        "</w:comment></w:comments>",
    }
    kinds = ("styles", "numbering", "footnotes", "comments")
    extra = [(kind, kind, f"{kind}.xml") for kind in kinds]
    extra += [("h1", "header", "header1.xml"), ("h2", "header", "../word/header1.xml")]
    path = write_docx(tmp_path / "a.docx", body, more, *extra)
    content = process(path, tmp_path / "out").result["content"]
    assert content == (
        "Word document: The Engine\n\n[Header]\nACME Ltd\n\n# Größe & 你好\n\nPlain text, as it is\n  - bullet\n"
        "1. one\n2. two\n\nName | Price\nNut; M8 | 0.30\n\nSee note[2]\n\n[Footnotes]\n[2]\nThe note\n\n"
        "[Comments]\nBob:\nReally?"
    )


def cell(reference: str, value: str, kind: str = "n", style: int = 0) -> str:
    return f'<c r="{reference}" t="{kind}" s="{style}"><v>{value}</v></c>'


@pytest.mark.spec("C26")
def test_a_workbook_is_told_sheet_by_sheet_with_dates_as_dates(tmp_path: Path) -> None:
    styles = (
        '<numFmts><numFmt numFmtId="164" formatCode="dd.mm.yyyy hh:mm"/></numFmts>'
        '<cellStyleXfs><xf numFmtId="14"/></cellStyleXfs>'
        '<cellXfs><xf numFmtId="0"/><xf numFmtId="14"/><xf numFmtId="164"/><xf numFmtId="9"/></cellXfs>'
    )
    rows = (
        f"<row>{cell('A1', '0', 's')}{cell('B1', '1', 's')}{cell('D1', '1', 'b')}</row>"
        f"<row>{cell('A2', '45000', style=1)}{cell('B2', '45000.75', style=2)}{cell('C2', '0.25', style=3)}</row>"
        '<row><c r="A3" t="inlineStr"><is><t>in</t><t>line</t></is></c><c r="B3"><f>A1*2</f><v>0.30000000000000004'
        '</v></c><c r="C3"><f>NOW()</f></c><c r="D3" t="e"><v>#DIV/0!</v></c></row>'
    )
    path = write_xlsx(
        tmp_path / "a.xlsx",
        {"Zahlen": rows, "Leer": ""},
        strings=["Grüße_x000D_", "&lt;b&gt;"],
        styles=styles,
    )
    content = process(path, tmp_path / "out").result["content"]
    assert content == (
        "Excel workbook, 2 sheets\n\n[Sheet: Zahlen]\nGrüße | <b> |  | TRUE\n"
        "2023-03-15 | 2023-03-15 18:00:00 | 25%\ninline | 0.3 | =NOW() | #DIV/0!"
    )


@pytest.mark.parametrize(
    ("value", "code", "told"),
    [
        ("1", "yyyy-mm-dd", "1900-01-01"),
        ("61", "d/m/yy", "1900-03-01"),
        ("0.5", "hh:mm", "12:00:00"),
        ("1.5", "[h]:mm", "36:00:00"),
        ("1e300", "yyyy", "1e+300"),
        ("nan", "yyyy", "nan"),
        ("-5", "yyyy", "-5"),
        ("12345", '#,##0 "days"', "12345"),
        ("12345", "0.00 [$EUR]", "12345"),
        ("0.125", "0.0%", "12.5%"),
        ("123456789012345678", "0", "123456789012345678"),
    ],
)
def test_numbers_are_shown_by_their_format(value: str, code: str, told: str) -> None:
    shown = number_text(value, format_kind(200, code))
    assert shown == told or (told == "1e+300" and float(shown) == 1e300)


def test_a_cell_in_the_last_corner_costs_nothing(tmp_path: Path) -> None:
    rows = f"<row>{cell('A1', '1')}</row><row>{cell('B1048576', '2')}{cell('XFD1048576', '3')}</row>"
    path = write_xlsx(tmp_path / "a.xlsx", {"Far": rows})
    assert text_of(read_xlsx(path, Limits())) == "1\n | 2 | [XFD] 3"


def test_a_sheet_with_too_many_rows_is_cut_and_says_so(tmp_path: Path) -> None:
    rows = "".join(f"<row>{cell(f'A{n}', str(n))}</row>" for n in range(1, 500))
    text = text_of(read_xlsx(write_xlsx(tmp_path / "a.xlsx", {"Long": rows}), Limits(rows=100)))
    assert text.splitlines()[-2:] == ["100", "[… more rows not read: 100 are the limit]"]
    text = text_of(read_xlsx(tmp_path / "a.xlsx", Limits(cells=50)))
    assert text.splitlines()[-2:] == ["50", "[… more cells not read: 50 are the limit]"]


def slide(*shapes: tuple[str, str]) -> str:
    told = "".join(
        f'<p:sp><p:nvSpPr><p:nvPr><p:ph type="{kind}"/></p:nvPr></p:nvSpPr><p:txBody>'
        f"<a:p><a:r><a:t>{text}</a:t></a:r></a:p></p:txBody></p:sp>"
        for kind, text in shapes
    )
    return (
        f'<p:sld xmlns:p="{SLIDE}" xmlns:a="{DRAWING}"><p:cSld><p:spTree>{told}</p:spTree></p:cSld></p:sld>'
    )


@pytest.mark.spec("C26")
def test_slides_are_told_in_the_order_of_the_show_with_titles_and_notes(tmp_path: Path) -> None:
    path = write_zip(
        tmp_path / "a.pptx",
        {
            "[Content_Types].xml": TYPES.format(
                part="ppt/presentation.xml", kind="presentationml.presentation"
            ),
            "_rels/.rels": links(("r1", "officeDocument", "ppt/presentation.xml")),
            "ppt/presentation.xml": f'<p:presentation xmlns:p="{SLIDE}" xmlns:r="{LINKS}"><p:sldIdLst>'
            '<p:sldId r:id="r9" id="256"/><p:sldId id="257" r:id="r1"/></p:sldIdLst></p:presentation>',
            "ppt/_rels/presentation.xml.rels": links(
                ("r1", "slide", "slides/slide1.xml"), ("r9", "slide", "slides/slide9.xml")
            ),
            "ppt/slides/slide1.xml": slide(("title", "The end"), ("sldNum", "2")),
            "ppt/slides/slide9.xml": slide(
                ("ctrTitle", "The start"), ("body", "A point"), ("body", "Ein Ärger")
            ),
            "ppt/slides/_rels/slide9.xml.rels": links(("n", "notesSlide", "../notesSlides/n.xml")),
            "ppt/notesSlides/n.xml": slide(("body", "Say hello"), ("sldNum", "1")),
        },
    )
    content = process(path, tmp_path / "out").result["content"]
    assert content == (
        "PowerPoint presentation, 2 slides\n\n[Slide 1: The start]\n- A point\n- Ein Ärger\nNotes: Say hello\n\n"
        "[Slide 2: The end]"
    )
    document = read_pptx(path, Limits(pages=1))
    assert (document.count, len(document.parts)) == (2, 1)


@pytest.mark.spec("C26")
def test_opendocument_files_are_told(tmp_path: Path) -> None:
    text = (
        '<text:h text:outline-level="2">Kapitel</text:h><text:p>Ein<text:s text:c="2"/>Satz<text:note>'
        "<text:note-citation>1</text:note-citation><text:note-body><text:p>Fuß</text:p></text:note-body></text:note>"
        "</text:p><text:list><text:list-item><text:p>Punkt</text:p></text:list-item></text:list>"
    )
    assert text_of(read_odt(write_odf(tmp_path / "a.odt", "text", text), Limits())) == (
        "## Kapitel\n\nEin  Satz [1: Fuß]\n- Punkt"
    )
    rows = "<table:table-row>{}</table:table-row>"
    cells = "<table:table-cell><text:p>{}</text:p></table:table-cell>"
    sheet = (
        f'<table:table table:name="Eins">{rows.format(cells.format("a") + cells.format("b"))}</table:table>'
    )
    content = process(write_odf(tmp_path / "a.ods", "spreadsheet", sheet * 2), tmp_path / "out").result[
        "content"
    ]
    assert content == "OpenDocument spreadsheet, 2 sheets\n\n[Sheet: Eins]\na | b\n\n[Sheet: Eins]\na | b"
    notes = "<presentation:notes><text:p>Smile</text:p></presentation:notes>"
    pages = f"<draw:page><text:p>Hello</text:p>{notes}</draw:page>"
    document = read_odp(write_odf(tmp_path / "a.odp", "presentation", pages), Limits())
    assert [(part.label, part.text) for part in document.parts] == [("Slide 1", "Hello\nNotes: Smile")]


def test_repeated_cells_and_rows_are_not_written_a_billion_times(tmp_path: Path) -> None:
    many = 'table:number-columns-repeated="1000000000"'
    sheet = (
        '<table:table table:name="x"><table:table-row table:number-rows-repeated="1000000000">'
        f"<table:table-cell {many}><text:p>a</text:p></table:table-cell><table:table-cell {many}/>"
        "<table:table-cell><text:p>far</text:p></table:table-cell></table:table-row></table:table>"
    )
    document = read_ods(write_odf(tmp_path / "a.ods", "spreadsheet", sheet), Limits())
    lines = text_of(document).splitlines()
    assert lines[0].startswith("a | a | a")
    assert lines[0].endswith("] far")
    assert lines[-1] == "[the same row 999,999,900 more times]"
    assert len(text_of(document)) < 100_000
    spaces = f'<text:p>a<text:s text:c="{10**12}"/>b</text:p>'
    assert len(text_of(read_odt(write_odf(tmp_path / "a.odt", "text", spaces), Limits()))) < 200


Write = Callable[[Path, str], Path]
DECLARATIONS = {
    "laughs": '<!DOCTYPE x [<!ENTITY a "ha"><!ENTITY b "&a;&a;&a;"><!ENTITY c "&b;&b;&b;">]>',
    "external": '<!DOCTYPE x [<!ENTITY c SYSTEM "file:///etc/passwd">]>',
    "parameter": '<!DOCTYPE x [<!ENTITY % p SYSTEM "file:///etc/passwd"> %p;]>',
    "system": '<!DOCTYPE x SYSTEM "http://127.0.0.1:9/x.dtd">',
}


@pytest.mark.parametrize("kind", DECLARATIONS)
def test_entities_are_refused_and_no_file_is_read_by_them(tmp_path: Path, kind: str) -> None:
    member = (
        f'{DECLARATIONS[kind]}<w:document xmlns:w="{WORD}"><w:body>{paragraph("&c;")}</w:body></w:document>'
    )
    path = write_docx(tmp_path / "a.docx", "", {"word/document.xml": member})
    with pytest.raises(DamagedMediaError, match="declares a document type or entities"):
        read_docx(path, Limits())


def test_a_zip_bomb_is_stopped_while_it_unpacks(tmp_path: Path) -> None:
    bomb = b'<x xmlns="x">' + b" " * 100_000_000
    path = write_docx(tmp_path / "a.docx", "", {"word/document.xml": bomb})
    assert path.stat().st_size < 200_000
    with pytest.raises(
        RefusedMediaError, match="document too large: the Word file unpacks to more than 64 MB"
    ):
        process(path, tmp_path / "out")


def test_a_zip_bomb_that_lies_about_its_size_is_stopped_too(tmp_path: Path) -> None:
    path = write_docx(tmp_path / "a.docx", paragraph("x" * 1_000_000))
    data = path.read_bytes()
    with zipfile.ZipFile(path) as archive:
        size = archive.getinfo("word/document.xml").file_size
    path.write_bytes(data.replace(struct.pack("<L", size), struct.pack("<L", 10)))
    reason = reason_of(lambda: read_docx(path, Limits(part_bytes=100_000)))
    assert reason is not None
    assert "too large" in reason or "damaged" in reason


def test_an_archive_with_too_many_members_is_refused(tmp_path: Path) -> None:
    path = write_docx(tmp_path / "a.docx", "", {f"junk/{n}": "" for n in range(300)})
    with pytest.raises(MediaTooLargeError, match="members"):
        read_docx(path, Limits(members=200))


def test_xml_that_is_nested_too_deeply_or_too_long_is_refused(tmp_path: Path) -> None:
    deep = write_docx(tmp_path / "a.docx", "<w:x>" * 100_000 + "</w:x>" * 100_000)
    with pytest.raises(DamagedMediaError, match="nested too deeply"):
        read_docx(deep, Limits())
    with pytest.raises(MediaTooLargeError, match="XML elements"):
        read_docx(write_docx(tmp_path / "b.docx", "<w:x/>" * 2_000), Limits(elements=1_000))


def test_links_that_leave_the_archive_lead_nowhere(tmp_path: Path) -> None:
    secret = tmp_path / "secret.xml"
    secret.write_text(f'<w:hdr xmlns:w="{WORD}">{paragraph("do not tell")}</w:hdr>')
    targets = ("../../../secret.xml", f"/{secret}", str(secret), f"file://{secret}")
    extra = [(f"r{n}", "header", target) for n, target in enumerate(targets)]
    path = write_docx(tmp_path / "a.docx", paragraph("Hello"), None, *extra)
    assert text_of(read_docx(path, Limits())) == "Hello"


def test_a_member_with_a_password_says_so(tmp_path: Path) -> None:
    path = write_docx(tmp_path / "a.docx", paragraph("Hello"))
    data = bytearray(path.read_bytes())
    at = data.index(b"PK\x01\x02")
    while at >= 0:  # the flag in the directory
        data[at + 8] |= 1
        at = data.find(b"PK\x01\x02", at + 4)
    path.write_bytes(data)
    with pytest.raises(ProtectedMediaError, match="password"):
        read_docx(path, Limits())


def test_long_texts_are_cut_and_say_so(tmp_path: Path) -> None:
    path = write_docx(tmp_path / "a.docx", paragraph("word " * 100) * 100)
    document = read_docx(path, Limits(characters=10_000))
    assert 9_000 < len(text_of(document)) <= 10_100
    assert document.warnings == ["the text is too long; its end was left out"]


def test_a_document_without_text_is_empty(tmp_path: Path) -> None:
    with pytest.raises(RefusedMediaError, match="empty document"):
        process(write_docx(tmp_path / "a.docx", paragraph("  ")), tmp_path / "out")


CHAPTER = (
    '<!DOCTYPE html><html xmlns="http://www.w3.org/1999/xhtml"><body><h1>{0}</h1><p>Text of {0}.</p></body>'
)


def write_epub(path: Path, more: dict[str, str] | None = None) -> Path:
    return write_zip(
        path,
        {
            "mimetype": "application/epub+zip",
            "META-INF/container.xml": '<container><rootfile full-path="OPS/book.opf"/></container>',
            "OPS/book.opf": '<package xmlns:dc="http://purl.org/dc/elements/1.1/"><metadata><dc:title>Märchen</dc:title>'
            '</metadata><manifest><item id="a" href="a.xhtml"/><item id="b" href="b%20b.xhtml"/>'
            '<item id="up" href="../../../../etc/passwd"/></manifest><spine><itemref idref="b"/><itemref idref="a"/>'
            '<itemref idref="up"/><itemref idref="b"/></spine></package>',
            "OPS/a.xhtml": CHAPTER.format("Two"),
            "OPS/b b.xhtml": CHAPTER.format("One"),
            **(more or {}),
        },
    )


@pytest.mark.spec("C26")
def test_a_book_is_told_in_the_order_of_its_spine(tmp_path: Path) -> None:
    content = process(write_epub(tmp_path / "a.epub"), tmp_path / "out").result["content"]
    assert content == "Book, 2 chapters: Märchen\n\n# One\n\nText of One.\n\n# Two\n\nText of Two."


def test_a_book_with_a_key_says_so(tmp_path: Path) -> None:
    locked = {"META-INF/encryption.xml": '<encryption><CipherReference URI="OPS/a.xhtml"/></encryption>'}
    with pytest.raises(ProtectedMediaError, match="DRM"):
        read_epub(write_epub(tmp_path / "a.epub", locked), Limits())


READERS: dict[str, tuple[Callable[[Path], Path], Callable[[Path, Limits], DocumentText]]] = {
    "docx": (lambda path: write_docx(path, paragraph("Hello") * 50), read_docx),
    "xlsx": (lambda path: write_xlsx(path, {"a": f"<row>{cell('A1', '1')}</row>"}), read_xlsx),
    "odt": (lambda path: write_odf(path, "text", "<text:p>Hello</text:p>"), read_odt),
    "epub": (write_epub, read_epub),
}


@pytest.mark.parametrize("kind", READERS)
def test_truncated_and_bit_flipped_files_are_read_or_refused_with_a_reason(tmp_path: Path, kind: str) -> None:
    write, read = READERS[kind]
    data = write(tmp_path / "good").read_bytes()
    bad = tmp_path / "bad"
    for step in range(1, 60):
        at = len(data) * step // 60
        bad.write_bytes(data[:at])
        assert "damaged" in (reason_of(lambda: read(bad, Limits())) or "")
        bad.write_bytes(data[:at] + bytes([data[at] ^ (1 << step % 8)]) + data[at + 1 :])
        assert reason_of(lambda: read(bad, Limits())) != ""
