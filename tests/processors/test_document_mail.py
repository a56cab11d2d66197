"""Mails are told with their best body and the text of their attachments; hostile ones stay bounded."""

from __future__ import annotations

from email.message import EmailMessage
from pathlib import Path

import pytest

from mediamill.processors.contract import RefusedMediaError
from mediamill.processors.document.document_text import Limits
from mediamill.processors.document.eml import read_eml
from tests.processors.document_files import paragraph, process, reason_of, write_docx, write_pdf

HEAD = "From: Ada <ada@example.org>\nTo: bob@example.org\nSubject: Hi\nMIME-Version: 1.0\n"


def letter(subject: str, text: str) -> EmailMessage:
    message = EmailMessage()
    message["From"] = "Ada Lovelace <ada@example.org>"
    message["To"] = "Jürgen Müller <juergen@example.org>"
    message["Date"] = "Mon, 02 Mar 2026 09:30:00 +0100"
    message["Subject"] = subject
    message.set_content(text)
    return message


def save(path: Path, message: EmailMessage) -> Path:
    path.write_bytes(message.as_bytes())
    return path


@pytest.mark.spec("C26")
def test_a_mail_is_told_with_its_attachments(tmp_path: Path) -> None:
    message = letter("Größe des Büros", "Hallo,\nsiehe Anhang.\n")
    message.add_alternative("<p>not <b>this</b></p>", subtype="html")
    pdf = write_pdf(tmp_path / "a.pdf", [[(50, 700, "The text of the PDF file")]]).read_bytes()
    docx = write_docx(tmp_path / "a.docx", paragraph("The text of the Word file")).read_bytes()
    message.add_attachment(pdf, maintype="application", subtype="pdf", filename="../../etc/plan ä.pdf")
    # What the sender claims about an attachment is not believed either.
    message.add_attachment(docx, maintype="image", subtype="png", filename="letter.png")
    message.add_attachment(b"\x00\x01\x02" * 500, maintype="application", subtype="x-odd", filename="odd.bin")
    output = process(save(tmp_path / "a.eml", message), tmp_path / "out")
    content = output.result["content"]
    assert content.startswith(
        "From: Ada Lovelace <ada@example.org>\nTo: Jürgen Müller <juergen@example.org>\n"
        "Date: Mon, 02 Mar 2026 09:30:00 +0100\nSubject: Größe des Büros\n\nHallo,\nsiehe Anhang.\n\n"
        "Attachment: plan ä.pdf (1 kB)\nAttachment: letter.png (1 kB)\nAttachment: odd.bin (1 kB)"
    )
    assert "[Attachment plan ä.pdf]\nPage 1\nThe text of the PDF file" in content
    assert "[Attachment letter.png]\nThe text of the Word file" in content
    assert "odd.bin was not read: documents of type application/octet-stream are not supported" in content
    assert "not this" not in content
    assert list((tmp_path / "out").iterdir()) == []


@pytest.mark.spec("C26")
def test_a_mail_with_a_page_only_is_told_as_text(tmp_path: Path) -> None:
    page = "Content-Type: text/html; charset=iso-8859-1\nContent-Transfer-Encoding: quoted-printable\n\n"
    (tmp_path / "a.eml").write_bytes(f"{HEAD}{page}<h1>Gr=FC=DFe</h1><script>no()</script><p>Bye".encode())
    content = process(tmp_path / "a.eml", tmp_path / "out").result["content"]
    assert content == "From: Ada <ada@example.org>\nTo: bob@example.org\nSubject: Hi\n\n# Grüße\n\nBye"


def test_mails_in_mails_are_read_to_a_depth(tmp_path: Path) -> None:
    message = letter("level 5", "text of level 5")
    for level in range(4, -1, -1):
        outer = letter(f"level {level}", f"text of level {level}")
        outer.add_attachment(message)
        message = outer
    content = process(save(tmp_path / "a.eml", message), tmp_path / "out").result["content"]
    assert "text of level 2" in content
    assert "text of level 3" not in content
    assert "[mails inside mails inside mails were not read]" in content


def nested(levels: int) -> str:
    inner = "Content-Type: text/plain\n\nthe core\n"
    for level in range(levels):
        inner = f'Content-Type: multipart/mixed; boundary="b{level}"\n\n--b{level}\n{inner}\n--b{level}--\n'
    return HEAD + inner


def test_fifty_levels_of_parts_are_read_and_thousands_are_refused_or_read(tmp_path: Path) -> None:
    (tmp_path / "a.eml").write_text(nested(50))
    assert "the core" in read_eml(tmp_path / "a.eml", Limits()).parts[0].text
    (tmp_path / "a.eml").write_text(nested(3_000))
    reason = reason_of(lambda: read_eml(tmp_path / "a.eml", Limits()))
    assert reason is None or "nested too deeply" in reason


def test_ten_thousand_parts_are_read_in_part(tmp_path: Path) -> None:
    part = "--b\nContent-Type: application/x\nContent-Disposition: attachment; filename=x\n\nx\n"
    (tmp_path / "a.eml").write_text(
        f'{HEAD}Content-Type: multipart/mixed; boundary="b"\n\n{part * 10_000}--b--\n'
    )
    content = process(tmp_path / "a.eml", tmp_path / "out").result["content"]
    assert "[only the first 2,000 parts of the mail were read]" in content
    assert len(content) < 20_000


@pytest.mark.parametrize(
    "odd",
    [
        "Subject: " + "=?utf-8?q?" * 20_000,
        "Subject: =?nonsense?b?!!!?= =?utf-8?b?/w==?=",
        "To: " + "a@b.c, " * 50_000,
        "Content-Type: " + "x/" * 50_000,
        "Content-Type: text/plain; charset=nonsense",
        "Content-Type: text/plain; charset=rot13",
        "Content-Transfer-Encoding: base64",
        "Content-Transfer-Encoding: x-uuencode",
        "Content-Type: message/rfc822\nContent-Transfer-Encoding: base64",
        "Content-Disposition: attachment; filename*=nonsense''%ff%fe",
        "Content-Disposition: attachment; filename*0*=a; filename*9999999999=b",
        "Content-Disposition: attachment; filename==?utf-8?b?a?=",
        "Content-Type: multipart/mixed",
        "Content-Type: multipart/mixed; boundary=",
    ],
)
def test_odd_headers_end_in_text_or_a_reason(tmp_path: Path, odd: str) -> None:
    (tmp_path / "a.eml").write_text(f"From: a@b.c\n{odd}\n\nbody = \xff begin\n")
    reason = reason_of(lambda: read_eml(tmp_path / "a.eml", Limits()))
    assert reason is None or "mail" in reason


def test_a_truncated_mail_is_read_as_far_as_it_goes(tmp_path: Path) -> None:
    message = letter("Hi", "The body")
    message.add_attachment(b"text of it " * 100, maintype="text", subtype="plain", filename="a.txt")
    data = message.as_bytes()
    for share in range(1, 20):
        (tmp_path / "a.eml").write_bytes(data[: len(data) * share // 20])
        assert reason_of(lambda: read_eml(tmp_path / "a.eml", Limits())) is None


@pytest.mark.parametrize(
    ("stream", "reason"),
    [("WordDocument", r"old binary Word format \(.doc\) is not supported"), ("EncryptedPackage", "password")],
)
def test_old_and_locked_office_files_are_refused_with_the_right_reason(
    tmp_path: Path, stream: str, reason: str
) -> None:
    """An OLE file: the header, a table of sectors and a directory with one stream."""
    header = bytearray(512)
    header[:8] = bytes.fromhex("d0cf11e0a1b11ae1")
    header[24:34] = bytes.fromhex("3e000300feff09000600")
    header[44:52] = (1).to_bytes(4, "little") + (1).to_bytes(4, "little")
    header[76:80] = (0).to_bytes(4, "little")
    header[80:] = b"\xff" * 432
    table = b"\xfd\xff\xff\xff\xfe\xff\xff\xff" + b"\xff" * 504
    directory = b""
    for name, kind in (("Root Entry", 5), (stream, 2)):
        coded = name.encode("utf-16-le")
        directory += coded.ljust(64, b"\0") + (len(coded) + 2).to_bytes(2, "little") + bytes([kind, 1])
        directory += b"\xff" * 12 + b"\0" * 48
    (tmp_path / "a.doc").write_bytes(bytes(header) + table + directory.ljust(512, b"\0"))
    with pytest.raises(RefusedMediaError, match=reason):
        process(tmp_path / "a.doc", tmp_path / "out")
