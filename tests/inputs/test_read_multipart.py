from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from mediamill.errors import MediamillError
from mediamill.inputs.draft import MessageDraft
from mediamill.inputs.read_multipart import FormError, MultipartMessageReader
from mediamill.inputs.spool import Spool
from tests.inputs.bodies import FORM_TYPE, GIF, JPEG, PNG, cut, form_of, image, message, read

FIELDS = [("thread_key", "t"), ("text", "look é 😀\r\n--a-bord")]
FILES: list[tuple[bytes, str, str | None]] = [
    (GIF, "image/gif", "a.gif"),
    (PNG + b"\r\n--a-borde", "image/png", None),
    (JPEG + b"\r\n", "", "ünï.jpg"),
]


def read_form(folder: Path, body: bytes, borders: list[int] | None = None) -> Any:
    return read(folder, cut(body, borders or []), form=True)


@pytest.mark.spec("I1", "I3")
def test_a_form_is_the_same_message_as_its_json_wherever_it_is_cut(tmp_path: Path) -> None:
    images = [
        image(GIF, "image/gif", filename="a.gif"),
        image(FILES[1][0], "image/png"),
        image(FILES[2][0], "image/jpeg", filename="ünï.jpg"),
    ]
    wanted, files = read(tmp_path, [json.dumps(message(*images, text=FIELDS[1][1])).encode()])
    form = form_of(FIELDS, FILES)
    for borders in ([], list(range(len(form))), *([border] for border in range(len(form)))):
        found, bytes_found = read_form(tmp_path, form, borders)
        assert found.payload_hash == wanted.payload_hash
        assert (found.text, bytes_found) == (wanted.text, files)
        assert [(each.mime_type, each.filename) for each in found.images] == [
            (each.mime_type, each.filename) for each in wanted.images
        ]


@pytest.mark.spec("I1")
@pytest.mark.parametrize("claimed", ["", "application/octet-stream"])
def test_a_file_of_no_type_is_what_its_bytes_are(tmp_path: Path, claimed: str) -> None:
    found, _ = read_form(tmp_path, form_of(FIELDS, [(PNG, claimed, "a"), (GIF, "Image/GIF; q=1", "b")]))
    assert [each.mime_type for each in found.images] == ["image/png", "image/gif"]


@pytest.mark.parametrize(("headers", "fits"), [(8, True), (9, False)])
def test_a_part_has_eight_headers_at_most(tmp_path: Path, headers: int, fits: bool) -> None:
    body = form_of(FIELDS).replace(b"\r\n\r\n", b"\r\n" + b"A: b\r\n" * (headers - 1) + b"\r\n", 1)
    if fits:
        assert read_form(tmp_path, body)[0].thread_key == "t"
        return
    with pytest.raises(FormError) as refused:
        read_form(tmp_path, body)
    assert refused.value.fix == "let a library write the form"


WRONG: dict[str, tuple[bytes, str]] = {
    "nothing": (b"", "form_invalid"),
    "no form": (b"hello", "form_invalid"),
    "cut short": (form_of(FIELDS, FILES)[:-8], "form_invalid"),
    "cut in a file": (form_of(FIELDS, FILES)[:-60], "form_invalid"),
    "no text": (form_of(FIELDS[:1]), "invalid"),
    "nothing in it": (form_of([]), "invalid"),
    "an unknown field": (form_of([*FIELDS, ("colour", "red")]), "invalid"),
    "a field without a name": (form_of([*FIELDS, ("", "red")]), "invalid"),
    "a field twice": (form_of([*FIELDS, ("text", "b")]), "invalid"),
    "a file elsewhere": (form_of(FIELDS, FILES, name="files"), "invalid"),
    "text blank": (form_of([("thread_key", "t"), ("text", " ")]), "invalid"),
    "text endless": (form_of([("text", "x" * 900_000)])[:-20], "invalid"),
    "text with NUL": (form_of([("thread_key", "t"), ("text", "a\0b")]), "invalid"),
    "text of other bytes": (form_of(FIELDS).replace("é".encode(), b"\xe9"), "invalid"),
    "a name of other bytes": (form_of(FIELDS, FILES).replace("ünï".encode(), b"\xfc"), "invalid"),
    "a mode that is none": (form_of([*FIELDS, ("delivery_mode", "shout")]), "invalid"),
    "an empty file": (form_of(FIELDS, [(b"", "image/gif", "a.gif")]), "image_base64_invalid"),
    "a type that is not taken": (form_of(FIELDS, [(GIF, "image/tiff", "a")]), "image_mime_type_unsupported"),
    "bytes that are none": (form_of(FIELDS, [(b"text", "image/gif", "a")]), "image_mime_type_unsupported"),
    "eleven images": (form_of(FIELDS, [(GIF, "image/gif", "a")] * 11), "image_count_exceeded"),
    "many headers": (
        form_of(FIELDS).replace(b"\r\n\r\n", b"\r\n" + b"A: b\r\n" * 20 + b"\r\n", 1),
        "form_invalid",
    ),
    "a long header": (form_of(FIELDS).replace(b"\r\n\r\n", b"\r\nA: " + b"b" * 9000, 1), "form_invalid"),
}


@pytest.mark.spec("I1", "I2")
@pytest.mark.parametrize("case", WRONG)
def test_what_is_wrong_with_a_form_has_its_code_and_leaves_no_file(tmp_path: Path, case: str) -> None:
    body, code = WRONG[case]
    for borders in ([], list(range(len(body))) if len(body) < 5_000 else [len(body) // 2]):
        with pytest.raises(MediamillError) as caught:
            read_form(tmp_path, body, borders)
        assert caught.value.code == code


@pytest.mark.parametrize(
    "content_type", ["multipart/form-data", "multipart/form-data; boundary=", f"{FORM_TYPE}{'x' * 300}"]
)
def test_a_form_names_a_border(tmp_path: Path, content_type: str) -> None:
    with Spool(tmp_path).open_tray() as tray, pytest.raises(FormError):
        MultipartMessageReader(MessageDraft(tray), content_type)
