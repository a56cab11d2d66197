"""Rich Text Format: a small scanner for control words, groups and two sorts of coded characters."""

from __future__ import annotations

import codecs
import re
from dataclasses import dataclass, field, replace
from pathlib import Path

from mediamill.media.errors import DamagedMediaError
from mediamill.processors.document.document_text import DocumentText, Limits, Part, TextRoom, until_full
from mediamill.processors.document.plain import read_bytes

TOKEN = re.compile(
    rb"\\([a-zA-Z]{1,32})(-?[0-9]{1,10})? ?"  # a control word
    rb"|\\'([0-9a-fA-F]{2})"  # a byte of the code page
    rb"|\\([^a-zA-Z])"  # an escaped character
    rb"|([{}])|[\r\n]+|([^\\{}\r\n]+)|\\",
    re.DOTALL,
)
SKIPPED = frozenset(
    {
        *("fonttbl", "colortbl", "stylesheet", "pict", "object", "fldinst", "themedata"),
        *("colorschememapping", "datastore", "latentstyles", "listtable", "listoverridetable"),
        *("rsidtbl", "generator", "xmlnstbl", "revtbl", "filetbl", "mmathPr", "pgptbl", "atrfstart"),
        *("atrfend", "atnid", "atnauthor", "blipuid", "shppict", "nonshppict", "listtext", "pntext"),
        *("bkmkstart", "bkmkend", "userprops", "xe", "tc"),
    }
)
FIELDS = {"title": "title", "author": "author"}
WORDS = {
    "par": "\n",
    "line": "\n",
    "sect": "\n",
    "page": "\n\n",
    "tab": "\t",
    "cell": " | ",
    "nestcell": " | ",
    "row": "\n",
    "nestrow": "\n",
    "emdash": "—",
    "endash": "–",
    "bullet": "•",
    "lquote": "‘",
    "rquote": "’",
    "ldblquote": "“",
    "rdblquote": "”",
    "emspace": " ",
    "enspace": " ",
}
ESCAPED = {"~": " ", "_": "-", "\n": "\n", "\r": "\n", "\\": "\\", "{": "{", "}": "}"}
CHARSETS = {
    0: "cp1252",
    128: "cp932",
    129: "cp949",
    134: "gbk",
    136: "cp950",
    161: "cp1253",
    162: "cp1254",
    163: "cp1258",
    177: "cp1255",
    178: "cp1256",
    186: "cp1257",
    204: "cp1251",
    222: "cp874",
    238: "cp1250",
}
MAX_GROUPS = 2_000  # deeper ones are as their parent
MAX_FONTS = 10_000


@dataclass(slots=True)
class _Group:
    skipped: bool = False
    target: str = ""  # "" for the text, else the field that it fills
    fonts: bool = False
    unicode_skip: int = 1
    encoding: str | None = None  # of the font, if it has one


@dataclass(slots=True)
class _Rtf:
    room: TextRoom
    group: _Group = field(default_factory=_Group)
    groups: list[_Group] = field(default_factory=list)
    too_deep: int = 0
    encoding: str = "cp1252"
    fonts: dict[int, str] = field(default_factory=dict)
    font: int = 0
    starred: bool = False
    skip: int = 0  # characters that stand in for a Unicode one
    coded: bytearray = field(default_factory=bytearray)
    surrogate: int = 0
    pieces: list[str] = field(default_factory=list)
    fields: dict[str, str] = field(default_factory=dict)

    def brace(self, mark: bytes) -> None:
        self.flush()
        self.skip = 0
        if mark == b"{":
            if len(self.groups) < MAX_GROUPS:
                self.groups.append(self.group)
                self.group = replace(self.group)
            else:
                self.too_deep += 1
        elif self.too_deep:
            self.too_deep -= 1
        elif self.groups:
            self.group = self.groups.pop()

    def word(self, word: str, number: int | None) -> None:
        if word == "u":
            self._unicode(number or 0)
            return
        if word in WORDS and self.skip:
            self.skip -= 1
            return
        self.flush()
        starred, self.starred = self.starred, False
        if word in FIELDS and self.group.target == "info":
            self.group.target, self.group.skipped = FIELDS[word], False
        elif word == "info":
            self.group.skipped, self.group.target = True, "info"
        elif word == "fonttbl":
            self.group.skipped = self.group.fonts = True
        elif word in SKIPPED or (starred and word not in ("shpinst", "nesttableprops")):
            self.group.skipped = True
        elif word in WORDS:
            self.write(WORDS[word])
        else:
            self._state(word, number or 0)

    def _state(self, word: str, number: int) -> None:
        if word == "uc":
            self.group.unicode_skip = min(max(number, 0), 100)
        elif word == "ansicpg":
            self.encoding = known_encoding(f"cp{number}") or self.encoding
        elif word in ("mac", "pc", "pca"):
            self.encoding = {"mac": "mac_roman", "pc": "cp437", "pca": "cp850"}[word]
        elif word == "f":
            self.font = number
            self.group.encoding = None if self.group.fonts else self.fonts.get(number)
        elif word == "fcharset" and self.group.fonts and len(self.fonts) < MAX_FONTS and number in CHARSETS:
            if number:  # 0 is the code page of the document
                self.fonts[self.font] = CHARSETS[number]
        elif word == "plain":
            self.group.encoding = None

    def byte(self, digits: bytes) -> None:
        if self.skip:
            self.skip -= 1
        else:
            self.coded += bytes.fromhex(digits.decode("ascii"))

    def _unicode(self, number: int) -> None:
        self.flush()
        code = number & 0xFFFF
        if 0xD800 <= code < 0xDC00:
            self.surrogate = code
        elif 0xDC00 <= code < 0xE000:
            if self.surrogate:
                self.write(chr(0x10000 + ((self.surrogate - 0xD800) << 10) + (code - 0xDC00)))
            self.surrogate = 0
        elif code >= 32:
            self.write(chr(code))
        self.skip = self.group.unicode_skip

    def text(self, data: bytes) -> None:
        if self.skip:
            used = min(self.skip, len(data))
            data, self.skip = data[used:], self.skip - used
        self.flush()
        if data:
            self.write(data.decode(self.group.encoding or self.encoding, "replace"))

    def flush(self) -> None:
        """Bytes of the code page that stand side by side may be one character."""
        if self.coded:
            data, self.coded = bytes(self.coded), bytearray()
            self.write(data.decode(self.group.encoding or self.encoding, "replace"))

    def write(self, text: str) -> None:
        if self.group.skipped:
            return
        if self.group.target in FIELDS.values():
            self.fields[self.group.target] = (self.fields.get(self.group.target, "") + text)[:1_000]
        elif not self.group.target:
            self.pieces.append(self.room.take(text))
            self.room.left += 1  # pieces are not lines


def known_encoding(name: str) -> str | None:
    """The name, if Python can decode text with it."""
    try:
        "".encode(name)
        return codecs.lookup(name).name
    except (LookupError, ValueError):
        return None


def _take_all(data: bytes, rtf: _Rtf) -> None:
    at = 0
    while found := TOKEN.match(data, at):
        at = found.end()
        word, number, digits, escaped, brace, text = found.groups()
        if word is not None:
            value = int(number) if number else None
            rtf.word(word.decode("ascii"), value)
            if word == b"bin" and value and value > 0:
                at += value
        elif digits is not None:
            rtf.byte(digits)
        elif brace is not None:
            rtf.brace(brace)
        elif text is not None:
            rtf.text(text)
        elif escaped == b"*":
            rtf.starred = True
        elif escaped is not None:
            rtf.flush()
            rtf.write(ESCAPED.get(escaped.decode("latin-1"), ""))


def read_rtf(path: Path, limits: Limits) -> DocumentText:
    """A Rich Text document."""
    document = DocumentText("rtf")
    data = read_bytes(path, limits, document)
    if not data.lstrip()[:5].startswith(b"{\\rtf"):
        raise DamagedMediaError("the RTF file is damaged: it does not begin as one")
    rtf = _Rtf(TextRoom(limits))
    with until_full(document):
        _take_all(data, rtf)
        rtf.flush()
    lines = "".join(rtf.pieces).replace("\0", "").split("\n")
    text = "\n".join(line.rstrip().removesuffix("|").rstrip() for line in lines)
    document.parts.append(Part("", re.sub(r"\n{3,}", "\n\n", text).strip("\n")))
    document.describe(rtf.fields)
    return document
