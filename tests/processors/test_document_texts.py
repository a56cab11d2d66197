"""Texts, web pages, RTF, calendars and contacts become readable text, whatever is in them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from mediamill.media.errors import DamagedMediaError
from mediamill.processors.contract import RefusedMediaError
from mediamill.processors.document.document_text import DocumentText, Limits
from mediamill.processors.document.ics import read_ics, rule_text
from mediamill.processors.document.plain import read_plain
from mediamill.processors.document.rtf import read_rtf
from mediamill.processors.document.vcf import read_vcf
from mediamill.processors.document.web_page import read_html
from tests.processors.document_files import process, reason_of

Read = Callable[[Path, Limits], DocumentText]


def read(reader: Read, path: Path, data: str | bytes, limits: Limits | None = None) -> str:
    path.write_bytes(data.encode() if isinstance(data, str) else data)
    return "\n".join(part.text for part in reader(path, limits or Limits()).parts)


@pytest.mark.spec("C26")
@pytest.mark.parametrize(
    "encoding", ["utf-8", "utf-8-sig", "utf-16", "utf-16-le", "utf-16-be", "utf-32", "cp1252"]
)
def test_the_encoding_of_a_text_is_found(tmp_path: Path, encoding: str) -> None:
    text = "Grüße, Ærø und Œuvre:\n\t“quoted” – 12 €\n" * 20
    assert read(read_plain, tmp_path / "a", text.replace("\n", "\r\n").encode(encoding)) == text


def test_a_text_that_is_cut_inside_a_letter_is_still_utf8(tmp_path: Path) -> None:
    text = "ä" * 1000
    told = read(read_plain, tmp_path / "a", text.encode(), Limits(text_bytes=999))
    assert told.startswith("ä" * 499)
    assert len(told) <= 500


@pytest.mark.spec("C26")
def test_any_text_round_trips(tmp_path: Path) -> None:
    text = "# Überschrift\n\n- 日本語\n- emoji 🙂\n\n| a | b |\n"
    (tmp_path / "a.md").write_text(text)
    assert process(tmp_path / "a.md", tmp_path / "out").result["content"] == text.strip("\n")


def test_a_very_long_text_is_read_in_part(tmp_path: Path) -> None:
    document_path = tmp_path / "a.txt"
    document_path.write_bytes(b"word\n" * 10_000)
    document = read_plain(document_path, Limits(text_bytes=1_000))
    assert document.warnings == ["only the first 1,000 bytes were read, 49,000 were not"]
    whole = process(document_path, tmp_path / "out", payload={}).result["content"]
    assert whole.count("word") == 10_000


def test_a_blank_text_is_an_empty_document(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text(" \n\t\n ")
    with pytest.raises(RefusedMediaError, match="empty document"):
        process(tmp_path / "a.txt", tmp_path / "out")


def test_deep_json_is_text_like_any_other(tmp_path: Path) -> None:
    deep = "[" * 200_000 + "]" * 200_000
    assert read(read_plain, tmp_path / "a.json", deep) == deep


PAGE = """<!DOCTYPE html><html><head><title>Caf&eacute; &amp; more</title><style>p {color: red}</style>
<script>if (a < b) document.write("<p>never</p>")</script></head>
<body><!-- <p>hidden</p> --><h1>Men&uuml;</h1>
<p>Read   <b>this</b>, see <a href="https://example.org/a?b=1&amp;c=2">our site</a> and
<a href="https://example.org/a?b=1&amp;c=2">again</a>, <a href='javascript:alert(1)'>no</a>.</p>
<ul><li>one<li><p>two</p><ol><li>inner</ol></ul>
<table><tr><th>Dish<th>Price</tr><tr><td>Soup</td><td>3 €</td></tr><tr><td></td><td>4 €</td></tr></table>
<pre>  kept
    as is</pre><img src=x alt="A cup"><div>last<br>line</div></body></html>"""


@pytest.mark.spec("C26")
def test_a_web_page_is_told_as_a_person_reads_it(tmp_path: Path) -> None:
    (tmp_path / "a.html").write_text(PAGE)
    assert process(tmp_path / "a.html", tmp_path / "out").result["content"] == (
        "Web page: Café & more\n\n# Menü\n\nRead this, see our site (https://example.org/a?b=1&c=2) and again, no.\n\n"
        "- one\n- two\n  1. inner\n\nDish | Price\nSoup | 3 €\n4 €\n\n  kept\n    as is\n\n[image: A cup]\nlast\nline"
    )


def test_the_encoding_that_a_page_names_is_used(tmp_path: Path) -> None:
    page = '<html><meta charset="shift_jis"><p>日本語</p>'
    assert read(read_html, tmp_path / "a", page.encode("shift_jis")) == "日本語"
    assert read(read_html, tmp_path / "a", '<html><meta charset="rot13"><p>plain &#x41;</p>') == "plain A"


@pytest.mark.parametrize(
    "page",
    [
        "<div>" * 100_000 + "deep",
        "<table><tr><td>" * 20_000 + "deep",
        "<ul><li>" * 20_000 + "deep",
        "<!--" * 200_000,
        "<a <a <a " * 100_000,
        '<a href="' * 100_000,
        "<script>" * 100_000,
        "&#" + "9" * 100_000 + ";" + "&#x" + "f" * 100_000 + ";",
        "<" * 500_000,
        "</" * 200_000,
        '<a href="http://x">http://x</a>' * 20_000,
        "<![CDATA[" * 100_000,
    ],
)
def test_broken_pages_end_in_text(tmp_path: Path, page: str) -> None:
    assert isinstance(read(read_html, tmp_path / "a", page), str)


RTF = rb"""{\rtf1\ansi\ansicpg1252\deff0{\fonttbl{\f0 Arial;}{\f1\fcharset204 Cyr;}}{\colortbl;\red0;}
{\info{\title A title}{\author Ada}{\operator nobody}}{\*\generator Nobody;}{\pict\wmetafile8 ffd8ffe0}
Gr\'fc\'dfe \u8364 ?\u-10179 ?\u-8638 ? \{braces\} \emdash  dash\par
{\b bold}\tab next\line {\f1\'cf\'f0\'e8}\par
{\uc2\u228 aexyz}\par
\trowd a\cell b\cell\row
{\field{\*\fldinst HYPERLINK "http://x"}{\fldrslt link}}\par}"""


@pytest.mark.spec("C26")
def test_rich_text_is_read_with_all_its_letters(tmp_path: Path) -> None:
    (tmp_path / "a.rtf").write_bytes(RTF)
    document = read_rtf(tmp_path / "a.rtf", Limits())
    assert document.parts[0].text == ("Grüße €🙂 {braces} — dash\nbold\tnext\nПри\näxyz\na | b\nlink")
    assert (document.title, document.author) == ("A title", "Ada")


def test_rtf_with_very_deep_groups_or_binary_data_is_read(tmp_path: Path) -> None:
    deep = b"{\\rtf1 " + b"{" * 200_000 + b"in" + b"}" * 200_000 + b" out}"
    assert read(read_rtf, tmp_path / "a", deep) == "in out"
    assert read(read_rtf, tmp_path / "a", b"{\\rtf1 a\\bin5 \\par}b}") == "ab"
    assert read(read_rtf, tmp_path / "a", b"{\\rtf1 a\\bin9999999999 }b") == "a"
    with pytest.raises(DamagedMediaError, match="does not begin as one"):
        read(read_rtf, tmp_path / "a", b"{\\html}")


CALENDAR = r"""BEGIN:VCALENDAR
X-WR-CALNAME:Team
BEGIN:VTIMEZONE
TZID:Europe/Berlin
BEGIN:STANDARD
DTSTART:19701025T030000
RRULE:FREQ=YEARLY;BYMONTH=10;BYDAY=-1SU
END:STANDARD
END:VTIMEZONE
BEGIN:VEVENT
SUMMARY:Planung\, Q3
DTSTART;TZID=Europe/Berlin:20260302T093000
DTEND;TZID=Europe/Berlin:20260302T103000
RRULE:FREQ=WEEKLY;INTERVAL=2;BYDAY=MO,WE;COUNT=10
LOCATION:Raum "Größe" 
 2
ORGANIZER;CN="Lovelace, Ada":mailto:ada@example.org
ATTENDEE;PARTSTAT=ACCEPTED;CN=Bob:mailto:bob@example.org
ATTENDEE:MAILTO:eve@example.org
DESCRIPTION:Agenda:\n- one
BEGIN:VALARM
DESCRIPTION:Ring
END:VALARM
END:VEVENT
BEGIN:VEVENT
SUMMARY:Holiday
DTSTART;VALUE=DATE:20261224
END:VEVENT
BEGIN:VTODO
SUMMARY:Buy tea
DUE:20260301T120000Z
END:VTODO
END:VCALENDAR
"""


@pytest.mark.spec("C26")
def test_events_are_told_with_times_as_written(tmp_path: Path) -> None:
    (tmp_path / "a.ics").write_text(CALENDAR.replace("\n", "\r\n"))
    assert process(tmp_path / "a.ics", tmp_path / "out").result["content"] == (
        "Calendar, 3 events: Team\n\nEvent: Planung, Q3\nWhen: 2026-03-02 09:30 – 10:30 (Europe/Berlin)\n"
        'Repeats: every 2 weeks on Monday, Wednesday, 10 times\nWhere: Raum "Größe" 2\n'
        "Organiser: Lovelace, Ada <ada@example.org>\n"
        "Attendees: Bob <bob@example.org> (accepted), eve@example.org\nAgenda:\n- one\n\n"
        "Event: Holiday\nWhen: 2026-12-24\n\nTask: Buy tea\nDue: 2026-03-01 12:00 (UTC)"
    )


@pytest.mark.parametrize(
    ("rule", "told"),
    [
        ("FREQ=DAILY", "every day"),
        ("FREQ=MONTHLY;BYDAY=-1FR", "every month on the last Friday"),
        ("FREQ=MONTHLY;BYMONTHDAY=15;UNTIL=20261231", "every month on day 15, until 2026-12-31"),
        ("FREQ=YEARLY;BYWEEKNO=20", "FREQ=YEARLY;BYWEEKNO=20"),
        ("nonsense", "nonsense"),
    ],
)
def test_simple_repetitions_are_told_in_words(rule: str, told: str) -> None:
    assert rule_text(rule) == told


CARDS = """BEGIN:VCARD
VERSION:4.0
FN:Ada Lovelace
ORG:Analytical Engines;Research
TEL;TYPE="cell,voice":tel:+44-20-1234
EMAIL;TYPE=work:ada@example.org
ADR:;;1 Main St;London;;W1;UK
PHOTO;ENCODING=b:AAAA
 BBBB
END:VCARD
BEGIN:VCARD
VERSION:2.1
N;CHARSET=UTF-8;ENCODING=QUOTED-PRINTABLE:M=C3=BCller;J=
=C3=BCrgen
TEL;CELL:0123
END:VCARD
"""


@pytest.mark.spec("C26")
def test_contacts_are_told_without_their_photos(tmp_path: Path) -> None:
    (tmp_path / "a.vcf").write_text(CARDS)
    assert process(tmp_path / "a.vcf", tmp_path / "out").result["content"] == (
        "Contact: Ada Lovelace\nOrganisation: Analytical Engines, Research\nPhone (cell): +44-20-1234\n"
        "Mail (work): ada@example.org\nAddress: 1 Main St, London, W1, UK\n\n"
        "Contact: Jürgen Müller\nPhone (cell): 0123"
    )


def test_entries_beyond_the_limit_are_counted(tmp_path: Path) -> None:
    path = tmp_path / "a"
    path.write_text("BEGIN:VCALENDAR\n" + "BEGIN:VEVENT\nSUMMARY:x\nEND:VEVENT\n" * 100)
    document = read_ics(path, Limits(entries=10))
    assert len(document.parts) == 10
    assert document.warnings == ["90 events not read"]


PIECES = {
    "html": [
        "<p>",
        "</p>",
        "<table>",
        "<tr>",
        "<td",
        ">",
        "<!--",
        "-->",
        '<a href="x">',
        "&amp",
        "&#",
        "<li>",
        "<pre>",
    ],
    "rtf": [
        "{",
        "}",
        "\\par",
        "\\u",
        "-123",
        "\\'",
        "f",
        "\\*",
        "\\bin",
        "9",
        "\\fonttbl",
        "\\f1",
        "\\uc",
        " ",
    ],
    "ics": [
        "BEGIN:VEVENT",
        "END:VEVENT",
        "\n",
        " ",
        "DTSTART",
        ";",
        "=",
        ":",
        "RRULE:FREQ=WEEKLY",
        '"',
        "\\",
        "DURATION:P",
    ],
    "vcf": [
        "BEGIN:VCARD",
        "END:VCARD",
        "\n",
        "N",
        ";",
        ":",
        "=",
        "ENCODING=QUOTED-PRINTABLE",
        "CHARSET",
        "TEL",
        ",",
    ],
}
FUZZED: dict[str, Read] = {"html": read_html, "rtf": read_rtf, "ics": read_ics, "vcf": read_vcf}


@pytest.mark.parametrize("kind", FUZZED)
def test_any_text_is_read_or_refused_with_a_reason(
    tmp_path_factory: pytest.TempPathFactory, kind: str
) -> None:
    path = tmp_path_factory.mktemp("fuzz") / "file"
    pieces = st.lists(st.one_of(st.sampled_from(PIECES[kind]), st.text(max_size=5)), max_size=60)

    @settings(max_examples=150, suppress_health_check=list(HealthCheck))
    @given(pieces)
    def check(parts: list[str]) -> None:
        start = "{\\rtf1 " if kind == "rtf" else ""
        path.write_bytes((start + "".join(parts)).encode("utf-8", "surrogatepass"))
        reason = reason_of(lambda: FUZZED[kind](path, Limits()))
        assert reason is None or len(reason) > 10

    check()
