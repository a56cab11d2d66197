"""Is it text, and which kind? Asked last, and conservative: in doubt it is plain text, or no text at all."""

from __future__ import annotations

import codecs
import csv
import json
import re
from itertools import islice

from mediamill.media.peek import HEAD_BYTES, Peek

BOMS = (
    (codecs.BOM_UTF8, "utf-8"),
    (codecs.BOM_UTF32_LE, "utf-32-le"),
    (codecs.BOM_UTF32_BE, "utf-32-be"),
    (codecs.BOM_UTF16_LE, "utf-16-le"),
    (codecs.BOM_UTF16_BE, "utf-16-be"),
)
CONTROLS = re.compile(r"[\x00-\x06\x0e-\x1a\x1c-\x1f\x7f]")
# Bytes of an old 8-bit code page: many of them above 127 prove little in a short file.
SHORT_BYTES, MOST_HIGH = 256, 0.3

HTML_STARTS = ("<!doctype html", "<html", "<head", "<body")
MAIL_FIELD = re.compile(r"([A-Za-z][A-Za-z0-9-]{0,60}):")
MAIL_FIELDS = {
    *("received", "return-path", "from", "to", "cc", "subject", "date", "message-id", "mime-version"),
    *("delivered-to", "reply-to", "content-type", "content-transfer-encoding", "dkim-signature", "x-mailer"),
}
JSON_START = re.compile(r'\s*(\{\s*"[^"\\\n]{0,200}"\s*:|\[\s*[\[{"])')
STRONG_MARKDOWN = (
    re.compile(r"^#{2,6} \S", re.MULTILINE),
    re.compile(r"^(```|~~~)", re.MULTILINE),
    re.compile(r"\[[^\]\n]{1,200}\]\([^)\s]{1,500}\)"),
    re.compile(r"\*\*\w[^*\n]{0,200}\*\*"),
    re.compile(r"^\|? ?:?-{3,}:? ?\|", re.MULTILINE),
)
WEAK_MARKDOWN = (re.compile(r"\A# \S"), re.compile(r"^[-*] \S", re.MULTILINE))


def look_at_text(peek: Peek) -> tuple[str, str] | None:
    """The kind of text, or None if the bytes are none."""
    decoded = _decode(peek.head)
    if decoded is None:
        return None
    text, encoding = decoded
    is_whole = peek.size <= HEAD_BYTES
    mime_type, evidence = _kind(text.lstrip("\ufeff \t\r\n"), is_whole)
    return mime_type, f"{encoding}, {evidence}"


def _decode(head: bytes) -> tuple[str, str] | None:
    for bom, encoding in BOMS:
        if head.startswith(bom):
            return _checked(head[len(bom) :], encoding)
    if found := _checked(head, "utf-8"):
        return found
    high = sum(byte > 127 for byte in head) / len(head)
    return _checked(head, "latin-1") if high <= MOST_HIGH or len(head) >= SHORT_BYTES else None


def _checked(data: bytes, encoding: str) -> tuple[str, str] | None:
    """The text, unless it does not decode or has control characters. The head may cut the last letter."""
    try:
        text = codecs.getincrementaldecoder(encoding)().decode(data, final=len(data) < HEAD_BYTES - 4)
    except ValueError:
        return None
    return None if CONTROLS.search(text) else (text, encoding)


def _kind(text: str, is_whole: bool) -> tuple[str, str]:
    start = text[:512].lower()
    if start.startswith("begin:vcalendar"):
        return "text/calendar", "BEGIN:VCALENDAR"
    if start.startswith("begin:vcard"):
        return "text/vcard", "BEGIN:VCARD"
    if start.startswith("<"):
        return _markup(text)
    if _is_mail(text):
        return "message/rfc822", "mail header fields"
    if start.startswith(("{", "[")) and _is_json(text, is_whole):
        return "application/json", "JSON"
    if _is_csv(text, is_whole):
        return "text/csv", "rows of equal length"
    if _is_markdown(text):
        return "text/markdown", "Markdown signs"
    return "text/plain", "text"


def _markup(text: str) -> tuple[str, str]:
    if text[:64].lower().startswith(HTML_STARTS):
        return "text/html", "HTML start"
    root, told = _root_element(text)
    if root == "svg":
        return "image/svg+xml", "root element svg"
    if root in ("html", "head", "body"):
        return "text/html", f"root element {root}"
    return ("application/xml", "XML declaration") if told else ("text/plain", "text")


def _root_element(text: str) -> tuple[str, bool]:
    """The first element behind declarations, comments and document type; was there an XML declaration?"""
    declared, at = text.startswith("<?xml"), 0
    for _ in range(100):
        at = text.find("<", at)
        if at < 0:
            return "", declared
        if text.startswith("<!--", at):
            end = text.find("-->", at)
        elif text.startswith("<!", at) and "[" in text[at : max(at, text.find(">", at))]:
            end = text.find("]>", at)
        elif text.startswith(("<?", "<!"), at):
            end = text.find(">", at)
        else:
            found = re.match(r"<(?:[\w.-]{1,64}:)?([\w.-]{1,64})[\s/>]", text[at : at + 200])
            return found[1].lower() if found else "", declared
        if end < 0:
            return "", declared
        at = end
    return "", declared


def _is_mail(text: str) -> bool:
    """Lines of `Field: value` from the first on, two of them fields that mails have."""
    known = set()
    for number, line in enumerate(islice(_lines(text), 100)):
        field = MAIL_FIELD.match(line)
        if field:
            known.add(field[1].lower())
        elif not line.strip():
            break
        elif not (line[0] in " \t" and number) and not (number == 0 and line.startswith("From ")):
            return False
    return len(known & MAIL_FIELDS) >= 2


def _is_json(text: str, is_whole: bool) -> bool:
    if not is_whole:
        return JSON_START.match(text) is not None
    try:
        json.loads(text)
    except (ValueError, RecursionError):
        return False
    return True


def _is_csv(text: str, is_whole: bool) -> bool:
    """At least three rows of at least three cells, or five of two, all of the same length, and not prose."""
    lines = list(islice(_lines(text), 21))
    if len(lines) == 21 or not is_whole:
        lines = lines[:-1]
    if any(len(line) > 5000 for line in lines):
        return False
    for delimiter in ",;\t":
        try:
            rows = [row for row in csv.reader(lines, delimiter=delimiter) if row]
        except csv.Error:
            continue
        widths = {len(row) for row in rows}
        if len(widths) == 1 and (width := widths.pop()) >= 2 and len(rows) >= (3 if width > 2 else 5):
            prose = sum(cell.startswith(" ") for row in rows for cell in row[1:])
            return prose * 2 <= len(rows) * (width - 1)
    return False


def _is_markdown(text: str) -> bool:
    strong = sum(sign.search(text) is not None for sign in STRONG_MARKDOWN)
    weak = sum(sign.search(text) is not None for sign in WEAK_MARKDOWN)
    return not text.startswith("#!") and strong >= 1 and 2 * strong + weak >= 3


def _lines(text: str) -> list[str]:
    return text[:HEAD_BYTES].splitlines()
