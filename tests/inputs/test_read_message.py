from __future__ import annotations

import base64
import json
import re
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from mediamill.errors import InvalidError, MediamillError
from mediamill.inputs.draft import FieldError
from mediamill.inputs.model import MAX_IMAGE_BYTES
from tests.inputs.bodies import GIF, JPEG, PNG, WEBP, body_of, cut, form_of, image, message, read

CASES = settings(suppress_health_check=[HealthCheck.function_scoped_fixture])


def code_of(folder: Path, body: bytes, borders: list[int] | None = None, **more: Any) -> str:
    with pytest.raises(MediamillError) as caught:
        read(folder, cut(body, borders or []), **more)
    return caught.value.code


# RFC 4648; Python's own strict mode takes padding that stands for nothing.
BASE64 = re.compile(r"(?:[A-Za-z0-9+/]{4})*(?:[A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=)?")

BODIES = [
    body_of(),
    body_of(image()),
    body_of(
        image(PNG, "image/png", filename='a "b"\\é.png'), image(JPEG + b"x", "image/jpeg"), text="é 😀 \n"
    ),
    json.dumps(message(image(WEBP, "IMAGE/WebP", filename=None)), indent=3, ensure_ascii=False).encode(),
    b'{"images": [{"data_base64": "'
    + base64.b64encode(GIF)
    + b'", "mime_type": "image/gif"}], "text": "x", "thread_key": "t"}',
    body_of(image(GIF + b"\xfb\xef\xbe")).replace(b"/", b"\\/").replace(b"+", b"\\u002B"),
]


@pytest.mark.spec("I1")
@pytest.mark.parametrize("body", BODIES, ids=range(len(BODIES)))
def test_a_message_is_the_same_wherever_its_body_is_cut(tmp_path: Path, body: bytes) -> None:
    wanted = json.loads(body)
    whole, files = read(tmp_path, [body])
    assert (whole.text, whole.thread_key) == (wanted["text"], wanted["thread_key"])
    given_images = wanted.get("images", [])
    assert files == [base64.b64decode(each["data_base64"]) for each in given_images]
    assert [each.mime_type for each in whole.images] == [each["mime_type"].lower() for each in given_images]
    assert [each.filename for each in whole.images] == [each.get("filename") for each in given_images]
    for border in range(len(body) + 1):
        again, bytes_again = read(tmp_path, cut(body, [border]))
        assert (again.payload_hash, bytes_again) == (whole.payload_hash, files)
    again, bytes_again = read(tmp_path, cut(body, list(range(len(body)))))
    assert (again.payload_hash, bytes_again) == (whole.payload_hash, files)


@CASES
@given(st.binary(max_size=200).map(lambda rest: GIF + rest), st.text(max_size=40), st.booleans(), st.data())
def test_any_bytes_and_any_text_arrive_as_they_were(
    tmp_path: Path, data: bytes, text: str, data_first: bool, draw: st.DataObject
) -> None:
    one = image(data)
    if data_first:
        one = dict(reversed(one.items()))
    body = body_of(one, text=f"x{text}".replace("\0", ""))
    borders = draw.draw(st.lists(st.integers(0, len(body)), max_size=9))
    found, files = read(tmp_path, cut(body, borders))
    assert (files, found.text) == ([data], f"x{text}".replace("\0", ""))


@CASES
@given(
    st.text(st.sampled_from([*"AZaz09+/=", " ", "\n", "-", "_", "é", "\\", ",", ":"]), max_size=16), st.data()
)
def test_base64_is_taken_as_strictly_as_the_standard_says(
    tmp_path: Path, tail: str, draw: st.DataObject
) -> None:
    text = base64.b64encode(GIF + b"...").decode() + tail
    body = json.dumps(message({"mime_type": "image/gif", "data_base64": text})).encode()
    borders = draw.draw(st.lists(st.integers(0, len(body)), max_size=6))
    wanted = base64.b64decode(text) if BASE64.fullmatch(text) else None
    for cuts in (borders, list(range(len(body)))):
        if wanted is None:
            assert code_of(tmp_path, body, cuts) == "image_base64_invalid"
        else:
            assert read(tmp_path, cut(body, cuts))[1] == [wanted]


def _with(name: str, value: str) -> bytes:
    """A message with this raw JSON in place of a field."""
    fields = {key: json.dumps(each) for key, each in message().items()} | {name: value}
    return ("{" + ", ".join(f'"{key}": {each}' for key, each in fields.items()) + "}").encode()


def _image(raw: str) -> bytes:
    return _with("images", f"[{raw}]")


WRONG: dict[str, tuple[bytes, str]] = {
    "nothing": (b"", "json_invalid"),
    "a word": (b"hello", "json_invalid"),
    "a list": (b"[]", "invalid"),
    "a string": (b'"hello"', "invalid"),
    "a number": (b"17", "invalid"),
    "null": (b"null", "invalid"),
    "deep lists": (b"[" * 100_000, "invalid"),
    "deep objects": (_with("text", '{"a":' * 100_000), "invalid"),
    "deep images": (_with("images", "[" * 100_000), "invalid"),
    "cut short": (body_of(image())[:-1], "json_invalid"),
    **{f"cut {end} before the end": (body_of(image())[:-end], "json_invalid") for end in range(4, 12)},
    "something behind": (body_of() + b"{}", "json_invalid"),
    "a comma too many": (body_of()[:-1] + b",}", "json_invalid"),
    "no text": (b'{"thread_key": "t"}', "invalid"),
    "no thread": (b'{"text": "t"}', "invalid"),
    "an unknown key": (body_of(colour="red"), "invalid"),
    "a key twice": (b'{"thread_key": "t", "text": "a", "text": "b"}', "invalid"),
    "a null twice": (b'{"thread_key": "t", "images": null, "images": null, "text": "a"}', "invalid"),
    "text null": (_with("text", "null"), "invalid"),
    "text a number": (_with("text", "12"), "invalid"),
    "text a list": (_with("text", '["a"]'), "invalid"),
    "text blank": (_with("text", '" \\n\\t "'), "invalid"),
    "text with NUL": (_with("text", '"a\\u0000b"'), "invalid"),
    "text with a lone surrogate": (_with("text", '"a\\ud83d"'), "invalid"),
    "text with the wrong half": (_with("text", '"\\ude00\\ud83d"'), "invalid"),
    "text with a bad escape": (_with("text", '"\\x41"'), "json_invalid"),
    "text with a short escape": (_with("text", '"\\u12"'), "json_invalid"),
    "text with a raw line break": (_with("text", '"a\nb"'), "json_invalid"),
    "text too long": (_with("text", json.dumps("x" * 200_001)), "invalid"),
    "text endless": (b'{"text": "' + b"x" * 3_000_000, "invalid"),
    "bad UTF-8": (b'{"thread_key": "t", "text": "\xff"}', "json_invalid"),
    "thread empty": (_with("thread_key", '""'), "invalid"),
    "thread with a line break": (_with("thread_key", '"a\\nb"'), "invalid"),
    "thread too long": (_with("thread_key", json.dumps("x" * 513)), "invalid"),
    "mode unknown": (_with("delivery_mode", '"shout"'), "invalid"),
    "mode null": (_with("delivery_mode", "null"), "invalid"),
    "key empty": (_with("idempotency_key", '""'), "invalid"),
    "key too long": (_with("idempotency_key", json.dumps("x" * 201)), "invalid"),
    "images an object": (_with("images", "{}"), "invalid"),
    "images a text": (_with("images", '"aaaa"'), "invalid"),
    "an image a text": (_image('"aaaa"'), "invalid"),
    "an image null": (_image("null"), "invalid"),
    "an image empty": (_image("{}"), "invalid"),
    "an image without type": (_image('{"data_base64": "R0lGODlh"}'), "invalid"),
    "an image without data": (_image('{"mime_type": "image/gif"}'), "invalid"),
    "an image with more": (_image('{"url": "http://x"}'), "invalid"),
    "an image with data twice": (_image('{"data_base64": "R0lGODlh", "data_base64": "R0lGODlh"}'), "invalid"),
    "data null": (_image('{"data_base64": null}'), "invalid"),
    "data a number": (_image('{"data_base64": 1}'), "invalid"),
    "data empty": (_image('{"data_base64": ""}'), "image_base64_invalid"),
    "data with a prefix": (
        _image('{"data_base64": "data:image/gif;base64,R0lGODlh"}'),
        "image_base64_invalid",
    ),
    "data with a space": (_image('{"data_base64": "R0lG ODlh"}'), "image_base64_invalid"),
    "data without padding": (_image('{"data_base64": "R0lGODl"}'), "image_base64_invalid"),
    "data with padding inside": (_image('{"data_base64": "R0==ODlh"}'), "image_base64_invalid"),
    "data for addresses": (_image('{"data_base64": "____----"}'), "image_base64_invalid"),
    "data with a bad escape": (_image('{"data_base64": "R0lG\\qDlh"}'), "image_base64_invalid"),
    "a type that is not taken": (body_of(image(mime_type="image/tiff")), "image_mime_type_unsupported"),
    "a type that is none": (body_of(image(mime_type="")), "image_mime_type_unsupported"),
    "bytes that are none": (body_of(image(b"hello world")), "image_mime_type_unsupported"),
    "bytes of a document": (body_of(image(b"%PDF-1.7 and more")), "image_mime_type_unsupported"),
    "a name too long": (body_of(image(filename="x" * 256)), "invalid"),
    "a name with control characters": (body_of(image(filename="a\x1bb")), "invalid"),
    "a name that is a list": (body_of(image(filename=[])), "invalid"),
    "eleven images": (body_of(*[image()] * 11), "image_count_exceeded"),
}


@pytest.mark.spec("I1", "I2")
@pytest.mark.parametrize("case", WRONG)
def test_what_is_wrong_has_its_code_wherever_it_is_cut_and_leaves_no_file(tmp_path: Path, case: str) -> None:
    body, code = WRONG[case]
    assert code_of(tmp_path, body) == code
    if len(body) < 5_000:
        assert code_of(tmp_path, body, list(range(len(body)))) == code


MOST = {
    "text": "é" * 200_000,
    "thread_key": "t" * 512,
    "idempotency_key": "k" * 200,
    "delivery_mode": "follow_up",
}


@pytest.mark.spec("I1", "I2")
@pytest.mark.parametrize("field", MOST)
def test_a_field_may_be_as_long_as_is_said_and_not_longer(tmp_path: Path, field: str) -> None:
    most = MOST[field]
    assert getattr(read(tmp_path, [body_of(**{field: most})])[0], field) == most
    assert getattr(read(tmp_path, [form_of(message(**{field: most}).items())], form=True)[0], field) == most
    for pieces, form in (
        ([body_of(**{field: most + "x"})], False),
        ([form_of(message(**{field: most + "x"}).items())], True),
    ):
        with pytest.raises(InvalidError, match=f"may have {len(most)} char|delivery_mode is none of"):
            read(tmp_path, pieces, form=form)


def test_the_name_of_an_image_may_have_255_characters_and_its_type_spaces_around(tmp_path: Path) -> None:
    found, _ = read(
        tmp_path, [body_of(image(mime_type=" Image/GIF ", filename="n" * 255), image(filename=""))]
    )
    assert [each.filename for each in found.images] == ["n" * 255, None]


WORDS: dict[str, tuple[bytes, str]] = {
    "no object": (b'"x"', "the body is no object"),
    "a list": (b"[]", "the body is no object"),
    "an unknown key": (body_of(colour="red"), "there is no colour: leave it out"),
    "a key twice": (b'{"text": "a", "text": "b"}', "text is there twice"),
    "a key twice in an image": (
        _image('{"filename": "a", "filename": "b"}'),
        "images[0].filename is there twice",
    ),
    "an unknown key of an image": (_image('{"url": "x"}'), "there is no images[0].url: leave it out"),
    "no thread": (b'{"text": "a"}', "thread_key is missing"),
    "no text": (b'{"thread_key": "a"}', "text is missing"),
    "a text that is none": (_with("text", "1"), "text is no text"),
    "images that are none": (_with("images", '"x"'), "images is no list"),
    "images that are a number": (_with("images", "1"), "images is no list"),
    "an image that is none": (_image("1"), "images has something in it that is no object"),
    "a second image of no type": (
        body_of(image(), {"data_base64": "R0lG"}),
        "images[1].mime_type is missing",
    ),
    "an image without bytes": (_image('{"mime_type": "image/gif"}'), "images[0].data_base64 is missing"),
    "an image whose name is none": (_image('{"filename": 1}'), "images[0].filename is no text"),
    "a thread of two lines": (_with("thread_key", '"a\\nb"'), "thread_key has control characters"),
    "a thread with DEL": (_with("thread_key", '"a\\u007f"'), "thread_key has control characters"),
    "a thread with a last control character": (
        _with("thread_key", '"\\u009f"'),
        "thread_key has control characters",
    ),
    "an empty thread": (_with("thread_key", '""'), "thread_key is empty"),
    "an empty text": (_with("text", '" "'), "text is empty"),
    "NUL": (_with("text", '"a\\u0000"'), "text has NUL characters"),
    "half a character": (_with("text", '"\\ud83d"'), "text has lone surrogates"),
    "a mode": (_with("delivery_mode", '"x"'), "delivery_mode is none of prompt, follow_up, steer"),
    "a type": (
        body_of(image(mime_type="image/x")),
        "images[0]: images of type 'image/x' are not taken: "
        "send one of image/jpeg, image/png, image/webp, image/gif",
    ),
    "bytes": (
        _image('{"mime_type": "image/gif", "data_base64": "?"}'),
        "images[0].data_base64 is not valid base64",
    ),
}


@pytest.mark.spec("I2")
@pytest.mark.parametrize("case", WORDS)
def test_what_is_wrong_is_said_with_where_it_is(tmp_path: Path, case: str) -> None:
    body, words = WORDS[case]
    with pytest.raises(MediamillError) as refused:
        read(tmp_path, [body])
    error = refused.value
    assert words in (f"{error.message}: {error.fix}" if error.fix else error.message)


@pytest.mark.parametrize("name", ["\x1f", "\x7f", "\x80", "\x9f"])
def test_characters_that_move_a_cursor_are_in_no_line_and_their_neighbours_may_be(
    tmp_path: Path, name: str
) -> None:
    assert code_of(tmp_path, body_of(thread_key=f"a{name}")) == "invalid"
    assert read(tmp_path, [body_of(thread_key="a ~\xa0")])[0].thread_key == "a ~\xa0"


@pytest.mark.spec("I2")
def test_the_eleventh_image_is_refused_where_it_begins(tmp_path: Path) -> None:
    head = body_of(*[image()] * 10)[:-2] + b", "
    assert code_of(tmp_path, head) == "json_invalid"  # it might still end well
    assert code_of(tmp_path, head + b"{") == "image_count_exceeded"
    found, _ = read(tmp_path, [body_of(*[image()] * 10)])
    assert len(found.images) == 10


@pytest.mark.spec("I2")
def test_the_decoded_bytes_of_all_images_have_a_limit(tmp_path: Path) -> None:
    half = GIF + bytes(MAX_IMAGE_BYTES // 2 - len(GIF))
    whole, files = read(tmp_path, cut(body_of(image(half), image(half)), list(range(0, 70_000_000, 300_001))))
    assert sum(map(len, files)) == MAX_IMAGE_BYTES == sum(each.byte_size for each in whole.images)
    too_many = body_of(image(half), image(half + bytes(100)))
    assert (
        code_of(tmp_path, too_many[:-40], list(range(0, 70_000_000, 300_001))) == "image_total_bytes_exceeded"
    )


def test_images_that_are_null_are_none(tmp_path: Path) -> None:
    assert read(tmp_path, [body_of(images=None)])[0].images == []


def test_after_its_images_a_message_is_read_as_before(tmp_path: Path) -> None:
    with pytest.raises(FieldError, match=r"^there is no colour$"):
        read(tmp_path, [body_of(image())[:-1] + b', "colour": 1}'])


def test_bytes_of_another_type_are_recorded_as_what_they_are(tmp_path: Path) -> None:
    found, _ = read(tmp_path, [body_of(image(PNG, "image/jpeg"))])
    assert [each.mime_type for each in found.images] == ["image/png"]


@pytest.mark.spec("I3")
def test_the_hash_names_the_content_and_not_how_it_is_written(tmp_path: Path) -> None:
    def hash_of(body: bytes) -> str:
        return read(tmp_path, [body])[0].payload_hash

    base = message(image(filename="a.gif"), image(PNG, "image/png"))
    turned = {key: base[key] for key in reversed(base)}
    turned["images"] = [dict(reversed(each.items())) for each in base["images"]]
    same = [
        json.dumps(base, indent=2).encode(),
        json.dumps(turned).encode(),
        json.dumps({**base, "delivery_mode": "prompt", "idempotency_key": "k"}).encode(),
        json.dumps(base).replace("image/gif", "IMAGE/GIF").encode(),
    ]
    assert {hash_of(body) for body in same} == {hash_of(json.dumps(base).encode())}
    others = [
        {**base, "text": "look "},
        {**base, "thread_key": "T"},
        {**base, "delivery_mode": "steer"},
        {**base, "images": base["images"][::-1]},
        {**base, "images": base["images"][:1]},
        message(image(), image(PNG, "image/png")),
        message(image(mime_type="image/png", filename="a.gif"), image(PNG, "image/png")),
        message(image(GIF + b"x", filename="a.gif"), image(PNG, "image/png")),
    ]
    assert len({hash_of(json.dumps(each).encode()) for each in [base, *others]}) == 1 + len(others)


def test_the_key_of_the_header_and_of_the_body_must_not_differ(tmp_path: Path) -> None:
    assert read(tmp_path, [body_of()], key="k")[0].idempotency_key == "k"
    assert read(tmp_path, [body_of(idempotency_key="k")], key="k")[0].idempotency_key == "k"
    assert read(tmp_path, [body_of(idempotency_key=None)], key="k")[0].idempotency_key == "k"
    assert read(tmp_path, [body_of(idempotency_key="b")])[0].idempotency_key == "b"
    assert code_of(tmp_path, body_of(idempotency_key="b"), key="k") == "idempotency_keys_differ"
    assert code_of(tmp_path, body_of(), key="") == "invalid"
    assert code_of(tmp_path, body_of(), key="x" * 201) == "invalid"
