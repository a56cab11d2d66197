from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from mediamill.errors import InvalidError
from mediamill.inputs.read_json import JsonError, JsonReader, Kind, Scalar, Sink, StringTooLongError
from tests.inputs.bodies import cut

LIMIT = 1000


class Builder:
    """Puts together again what it is told; strings under the key "big" come in pieces."""

    def __init__(self) -> None:
        self.root: list[Any] = []
        self._open: list[Any] = [self.root]
        self._keys: list[str] = [""]

    def begin(self, kind: Kind) -> None:
        new: Any = {} if kind == "object" else []
        self._add(new)
        self._open.append(new)
        self._keys.append("")

    def end(self) -> None:
        self._open.pop()
        self._keys.pop()

    def key(self, name: str) -> None:
        self._keys[-1] = name

    def begin_string(self) -> int | Sink:
        return _Pieces(self) if self._keys[-1] == "big" else LIMIT

    def value(self, value: Scalar) -> None:
        self._add(value)

    def _add(self, value: Any) -> None:
        if isinstance(self._open[-1], dict):
            self._open[-1][self._keys[-1]] = value
        else:
            self._open[-1].append(value)


class _Pieces:
    def __init__(self, builder: Builder) -> None:
        self._builder, self._pieces = builder, bytearray()

    def write(self, piece: bytes) -> None:
        self._pieces += piece

    def end(self) -> None:
        self._builder.value(self._pieces.decode("latin-1"))


def build(body: bytes, borders: list[int]) -> Any:
    builder = Builder()
    reader = JsonReader(builder)
    for piece in cut(body, borders):
        reader.feed(piece)
    reader.close()
    [found] = builder.root
    return found


texts = st.text(max_size=30)
plain = st.text(st.characters(max_codepoint=126), max_size=30)
values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(10**15), 10**15)
    | st.floats(allow_nan=False, allow_infinity=False)
    | texts,
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(st.text(max_size=8).filter(lambda key: key != "big"), inner, max_size=4)
    ),
    max_leaves=12,
)
bigs = st.builds(lambda value, big: {"a": value, "big": big, "z": [value]}, values, plain)


@given(values | bigs, st.booleans(), st.sampled_from([None, 0, 3]), st.data())
def test_json_cut_anywhere_is_what_the_standard_library_reads(
    value: Any, ascii_only: bool, indent: int | None, data: st.DataObject
) -> None:
    body = json.dumps(value, ensure_ascii=ascii_only, indent=indent).encode()
    borders = data.draw(st.lists(st.integers(0, len(body)), max_size=8))
    assert build(body, borders) == json.loads(body)
    assert build(body, list(range(len(body)))) == json.loads(body)


ALPHABET = st.sampled_from(
    [*'{}[]:,"\\ \n\t', "u", "0", "12", "-", ".", "e", "true", "null", "d83d", "\x1f", "é", "NaN", '"a":']
)


@given(st.lists(ALPHABET, max_size=12).map("".join), st.data())
@example('{"a":1,}', None)
@example("[1,]", None)
@example('"\\ud83d\\ude00"', None)
@example("01", None)
@example('{"a":1', None)
@example('"\\u12"', None)
@example("\ufeff{}", None)
def test_what_the_standard_library_refuses_is_refused_wherever_it_is_cut(
    text: str, data: st.DataObject | None
) -> None:
    body = text.encode()
    borders = [] if data is None else data.draw(st.lists(st.integers(0, len(body)), max_size=6))
    try:
        wanted = json.loads(text, parse_constant=_refuse)
    except ValueError:
        for cuts in (borders, list(range(len(body)))):
            with pytest.raises(JsonError):
                build(body, cuts)
        return
    for cuts in (borders, list(range(len(body)))):
        assert build(body, cuts) == wanted


def _refuse(word: str) -> None:
    raise ValueError(word)


@pytest.mark.parametrize(
    "body",
    [b'"\xff"', b'"\xc3', b'"\xc3"', b'"\xed\xa0\x80"', b'"\xc0\xaf"', b'{"\xff":1}', b"\xff"],
    ids=repr,
)
def test_what_is_not_utf_8_is_refused(body: bytes) -> None:
    for borders in ([], list(range(len(body)))):
        with pytest.raises(JsonError):
            build(body, borders)


def test_nesting_has_a_limit() -> None:
    fine = b"[" * 32 + b"]" * 32
    assert build(fine, []) == json.loads(fine)
    with pytest.raises(JsonError, match="nested too deeply at byte 32"):
        build(b"[" * 100_000, [])


@pytest.mark.parametrize(
    ("body", "at"),
    [(b'"ab\\u12"', 3), (b'["\\ud83d\\u1"]', 8), (b'{"a": "\\uxyz"', 7), (b'{"big": "\\u1"}', 9)],
)
def test_an_escape_that_is_cut_short_is_found_where_it_is(body: bytes, at: int) -> None:
    for borders in ([], list(range(len(body)))):
        with pytest.raises(JsonError, match=f"a broken escape at byte {at}$"):
            build(body, borders)


def test_strings_keys_and_words_have_a_limit_before_they_end() -> None:
    assert build(b'"' + b"\\ud83d\\ude00" * LIMIT + b'"', []) == "😀" * LIMIT
    with pytest.raises(StringTooLongError, match="may have 1000 characters"):
        build(b'"' + b"x" * (LIMIT + 1) + b'"', [])
    for endless in (b'"' + b"x" * 20_000, b'{"' + b"k" * 2_000, b"1" * 1_000):
        with pytest.raises(InvalidError) as caught:
            build(endless, [10, 600])
        assert "too early" not in caught.value.message


def test_a_fault_says_where_it_is_whatever_the_cuts() -> None:
    body = b'{"a": [1, 2], "b" 3}'
    for borders in ([], [5, 12], list(range(len(body)))):
        with pytest.raises(JsonError, match="not JSON: : is expected at byte 18"):
            build(body, borders)
