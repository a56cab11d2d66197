"""Web pages as a person reads them: headings, lists, tables, links once; no scripts, no styles.

The scanner is our own: the one in the standard library takes quadratic time on broken pages. Each search here
either moves on past what it found or is not made again.
"""

from __future__ import annotations

import html
import re
from collections.abc import Iterator
from pathlib import Path

from mediamill.processors.document.document_text import (
    DocumentText,
    Limits,
    Part,
    TextFullError,
    TextRoom,
    one_line,
)
from mediamill.processors.document.page_flow import PageFlow
from mediamill.processors.document.plain import decode_text, read_bytes

NAME = re.compile(r"/?([A-Za-z][A-Za-z0-9:-]{0,30})")
RAW = {
    "script",
    "style",
    "textarea",
    "title",
    "noscript",
    "template",
    "svg",
    "math",
    "iframe",
    "object",
    "select",
}
BLOCKS = frozenset(
    {
        *("address", "article", "aside", "blockquote", "body", "caption", "dd", "details", "div"),
        *("dl", "dt", "fieldset", "figcaption", "figure", "footer", "form", "header", "hr", "html"),
        *("main", "nav", "p", "section", "summary"),
    }
)
HEADINGS = {f"h{level}": level for level in range(1, 7)}
LONG_NUMBER = re.compile(r"&#[xX]?0*[0-9a-fA-F]{8,};?")
CHARSET = re.compile(rb"charset\s*=\s*[\"']?([A-Za-z0-9_-]{2,30})")
LINK_CHARACTERS = 500


def read_html(path: Path, limits: Limits) -> DocumentText:
    """A web page."""
    document = DocumentText("html")
    data = read_bytes(path, limits, document)
    title, text = page_text(decode_page(data), limits, document)
    document.describe({"title": title})
    document.parts.append(Part("", text))
    return document


def decode_page(data: bytes) -> str:
    """The page by its mark, what it says itself if that fits, or its bytes."""
    said = CHARSET.search(data[:2048])
    if said and not data.startswith((b"\xff\xfe", b"\xfe\xff", b"\xef\xbb\xbf")):
        try:
            name = said[1].decode("ascii")
            return decode_text(data, {"iso-8859-1": "cp1252", "latin1": "cp1252"}.get(name.lower(), name))
        except (LookupError, ValueError):  # no such encoding, or not one for text
            pass
    return decode_text(data)


def page_text(page: str, limits: Limits, document: DocumentText) -> tuple[str, str]:
    """Title and text of a page."""
    reader = _Reader(limits)
    try:
        for kind, name, body in scan(page):
            reader.take(kind, name, body)
    except TextFullError:
        document.warn("the text is too long; its end was left out")
    return one_line(unescape(reader.title)), reader.flow.finish()


def unescape(text: str) -> str:
    """Character references to characters; numbers beyond Unicode never reach Python's own limits."""
    return html.unescape(LONG_NUMBER.sub("\ufffd", text)) if "&" in text else text


def scan(page: str) -> Iterator[tuple[str, str, str]]:
    """("text", "", text), ("open", tag, attributes), ("close", tag, "") and ("raw", tag, its text)."""
    at = 0
    while at < len(page):
        tag_at = page.find("<", at)
        if tag_at < 0:
            yield "text", "", page[at:]
            return
        if tag_at > at:
            yield "text", "", page[at:tag_at]
        at = tag_at
        if page.startswith("<!--", at):
            at = _after(page, "-->", at + 4)
        elif page.startswith(("<!", "<?"), at):
            at = _after(page, ">", at)
        elif not (named := NAME.match(page, at + 1)):
            yield "text", "", "<"
            at += 1
        else:
            end = _tag_end(page, at)
            name = named[1].lower()
            closes = page.startswith("</", at)
            yield ("close" if closes else "open"), name, page[named.end() : min(end, named.end() + 8192)]
            at = end + 1
            if name in RAW and not closes and page[end - 1 : end] != "/":
                found = re.compile(f"</{name}", re.IGNORECASE).search(page, at)
                stop = found.start() if found else len(page)
                yield "raw", name, page[at:stop]
                at = stop


def _after(page: str, mark: str, at: int) -> int:
    found = page.find(mark, at)
    return len(page) if found < 0 else found + len(mark)


def _tag_end(page: str, at: int) -> int:
    """The `>` of a tag: one inside quotes does not count, unless the quotes never close."""
    first = end = page.find(">", at)
    for _ in range(5):
        if end < 0:
            break
        quotes = page[at : min(end, at + 65536)]
        if quotes.count('"') % 2 == 0 or page[end - 1] == '"':
            return end
        end = page.find(">", end + 1)
    return first if first >= 0 else len(page)


def attribute(body: str, name: str) -> str:
    """The value of one attribute of a tag."""
    found = re.search(
        rf"(?:^|[\s\"'/]){name}\s*=\s*(?:\"([^\"]*)\"|'([^']*)'|([^\s\"'>]+))", body, re.IGNORECASE
    )
    if not found:
        return ""
    return unescape(next((value for value in found.groups() if value is not None), ""))


class _Reader:
    """What each tag means for the flow of text."""

    def __init__(self, limits: Limits) -> None:
        self.flow = PageFlow(TextRoom(limits))
        self.title = ""
        self._links: set[str] = set()
        self._href = ""

    def take(self, kind: str, name: str, body: str) -> None:
        if kind == "text":
            self.flow.text(unescape(body))
        elif kind == "raw":
            if name == "title" and not self.title:
                self.title = body[:2_000]
            elif name == "textarea":
                self.flow.text(unescape(body))
        elif kind == "open":
            self._open(name, body)
        else:
            self._close(name)

    def _open(self, name: str, body: str) -> None:
        flow = self.flow
        if name == "br":
            flow.line_break()
        elif name in HEADINGS:
            flow.block(f"{'#' * HEADINGS[name]} ", apart=True)
        elif name == "li":
            flow.list_item()
        elif name in ("ul", "ol"):
            flow.open_list(counted=name == "ol")
        elif name == "pre":
            flow.open_pre()
        elif name in ("table", "tr", "td", "th"):
            flow.open_table_part(name)
        elif name == "a":
            self._href = attribute(body, "href")
        elif name == "img":
            if alt := one_line(attribute(body, "alt")):
                flow.text(f" [image: {alt}] ")
        elif name in BLOCKS:
            flow.block(apart=name == "p")

    def _close(self, name: str) -> None:
        flow = self.flow
        if name in HEADINGS or name == "p":
            flow.block(apart=True)
        elif name in ("ul", "ol"):
            flow.close_list()
        elif name == "pre":
            flow.close_pre()
        elif name in ("table", "tr", "td", "th"):
            flow.close_table_part(name)
        elif name == "a":
            self._close_link()
        elif name in BLOCKS:
            flow.block()

    def _close_link(self) -> None:
        href, self._href = self._href.strip(), ""
        told = href.removeprefix("mailto:")
        if not href.startswith(("http://", "https://", "mailto:")) or len(href) > LINK_CHARACTERS:
            return
        if told not in self._links and len(self._links) < 2_000 and not self.flow.ends_with(told):
            self._links.add(told)
            self.flow.text(f" ({told})")
