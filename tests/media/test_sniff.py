"""The real type of a file is found from its bytes."""

from __future__ import annotations

import bz2
import gzip
import io
import lzma
import sqlite3
import tarfile
from pathlib import Path

import pytest
import pyvips
from PIL import Image

from mediamill.media.sniff import sniff
from tests.media.making import FILMS, make_film
from tests.media.pieces import box as box_of
from tests.media.pieces import ebml, ftyp, ogg_page, ole, tiff, track, zipped

pytestmark = pytest.mark.spec("C29")

OOXML = "application/vnd.openxmlformats-officedocument."
ODF = "application/vnd.oasis.opendocument."


@pytest.mark.parametrize(("container", "video", "audio", "mime_type"), FILMS)
def test_sound_and_video_are_told_apart_by_what_is_in_them(
    container: str, video: str | None, audio: str | None, mime_type: str, tmp_path: Path
) -> None:
    made = make_film(tmp_path / "named.txt", container, video, audio)
    assert sniff(made).mime_type == mime_type


def test_a_film_whose_directory_is_at_the_end_or_in_pieces_is_a_film(tmp_path: Path) -> None:
    for options in ({"movflags": "faststart"}, {"movflags": "frag_keyframe+empty_moov"}):
        made = make_film(tmp_path / "film", "mp4", "libx264", "aac", options=options)
        assert sniff(made).mime_type == "video/mp4"


def test_speech_of_phones_is_amr(tmp_path: Path) -> None:
    made = make_film(tmp_path / "note", "amr", None, "libopencore_amrnb", rate=8000)
    assert sniff(made).mime_type == "audio/amr"


def test_mp3_is_found_without_a_tag_and_behind_a_large_one(tmp_path: Path) -> None:
    bare = make_film(tmp_path / "bare", "mp3", None, "libmp3lame", options={"id3v2_version": "0"})
    assert bare.read_bytes()[0] == 0xFF
    assert sniff(bare).mime_type == "audio/mpeg"
    size = 300_000
    tag = b"ID3\x03\0\0" + bytes(size >> shift & 0x7F for shift in (21, 14, 7, 0)) + b"\x01" * size
    for suffix, mime_type in (("mp3", "audio/mpeg"), ("adts", "audio/aac"), ("flac", "audio/flac")):
        codec = {"mp3": "libmp3lame", "adts": "aac", "flac": "flac"}[suffix]
        sound = make_film(tmp_path / suffix, suffix, None, codec).read_bytes()
        (tmp_path / suffix).write_bytes(tag + sound)
        assert sniff(tmp_path / suffix).mime_type == mime_type


@pytest.mark.parametrize(
    ("suffix", "mime_type"),
    [
        (".jpg", "image/jpeg"),
        (".png", "image/png"),
        (".gif", "image/gif"),
        (".webp", "image/webp"),
        (".tif", "image/tiff"),
        (".avif", "image/avif"),
    ],
)
def test_images_of_vips(suffix: str, mime_type: str, tmp_path: Path) -> None:
    image = pyvips.Image.black(64, 64, bands=3).copy(interpretation="srgb")
    (tmp_path / "image").write_bytes(image.write_to_buffer(suffix))
    assert sniff(tmp_path / "image").mime_type == mime_type


@pytest.mark.parametrize(
    ("name", "mime_type"),
    [
        ("BMP", "image/bmp"),
        ("ICO", "image/vnd.microsoft.icon"),
        ("TIFF", "image/tiff"),
        ("JPEG2000", "image/jp2"),
        ("PDF", "application/pdf"),
        ("EPS", "application/postscript"),
    ],
)
def test_images_of_pillow(name: str, mime_type: str, tmp_path: Path) -> None:
    Image.new("RGB", (32, 32), "teal").save(tmp_path / "image", name)
    assert sniff(tmp_path / "image").mime_type == mime_type


def test_an_animated_png_is_a_png(tmp_path: Path) -> None:
    first, second = Image.new("RGB", (8, 8), "red"), Image.new("RGB", (8, 8), "blue")
    first.save(tmp_path / "image", "PNG", save_all=True, append_images=[second])
    assert b"acTL" in (tmp_path / "image").read_bytes()
    assert sniff(tmp_path / "image").mime_type == "image/png"


def _tar() -> bytes:
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w") as archive:
        archive.addfile(tarfile.TarInfo("empty"))
    return out.getvalue()


def _sqlite() -> bytes:
    with sqlite3.connect(":memory:") as database:
        database.execute("create table t (a)")
        return database.serialize()


NEF: dict[int, int | bytes] = {254: 1, 271: b"NIKON CORPORATION\0", 330: 1000}
BYTES: list[tuple[str, bytes, str]] = [
    # the family of MP4, by brand and tracks
    ("heic", ftyp(b"heic", b"mif1", b"heic") + box_of(b"meta", b"\0" * 40), "image/heic"),
    ("heif", ftyp(b"mif1", b"mif1", b"heic") + box_of(b"meta", b"\0" * 40), "image/heic"),
    ("heif sequence", ftyp(b"msf1", b"hevc") + box_of(b"moov", track(b"pict")), "image/heic"),
    ("avif as mif1", ftyp(b"mif1", b"mif1", b"avif") + box_of(b"meta", b"\0" * 40), "image/avif"),
    ("avif sequence", ftyp(b"avis", b"msf1") + box_of(b"moov", track(b"pict")), "image/avif"),
    ("canon cr3", ftyp(b"crx ", b"isom") + box_of(b"moov", track(b"vide")), "image/x-canon-cr3"),
    ("audio book with pictures", ftyp(b"M4B ") + box_of(b"moov", track(b"soun"), track(b"vide")), "audio/mp4"),
    ("m4a that is a film", ftyp(b"M4A ") + box_of(b"moov", track(b"vide")), "video/mp4"),
    ("sound in mp42", ftyp(b"mp42") + box_of(b"moov", track(b"soun"), track(b"text")), "audio/mp4"),
    ("moov far away", ftyp(b"mp42") + box_of(b"mdat", b"\0" * 300_000) + box_of(b"moov", track(b"soun")),
     "audio/mp4"),
    ("quicktime of 1998", box_of(b"mdat", b"\0" * 99) + box_of(b"moov", track(b"vide")), "video/quicktime"),
    # EBML
    ("webm", ebml(b"webm", 1, 2), "video/webm"),
    ("weba", ebml(b"webm", 2, 17), "audio/webm"),
    ("mka", ebml(b"matroska", 2), "audio/x-matroska"),
    ("ebml of another kind", ebml(b"other", 1), "application/octet-stream"),
    # Ogg
    ("vorbis", ogg_page(b"\x01vorbis\0\0"), "audio/ogg"),
    ("speex", ogg_page(b"Speex   1.2"), "audio/ogg"),
    ("theora", ogg_page(b"\x80theora\x03"), "video/ogg"),
    ("theora behind vorbis", ogg_page(b"\x01vorbis\0") + ogg_page(b"\x80theora", serial=2), "video/ogg"),
    ("theora behind skeleton", ogg_page(b"fishead\0") + ogg_page(b"\x80theora", serial=2), "video/ogg"),
    ("unknown in ogg", ogg_page(b"something"), "application/ogg"),
    ("amr of wide band", b"#!AMR-WB\n\x04" + b"\0" * 60, "audio/amr-wb"),
    ("midi", b"MThd\0\0\0\x06\0\x01\0\x01\0\x60MTrk", "audio/midi"),
    # raw images
    ("dng", tiff({254: 1, 271: b"Google\0", 50706: 0x0401}), "image/x-adobe-dng"),
    ("dng, other order", tiff({50706: 0x01040000}, order=">"), "image/x-adobe-dng"),
    ("cr2", tiff({271: b"Canon\0"}, extra=b"CR\x02\0\0\0\0\0"), "image/x-canon-cr2"),
    ("nef", tiff(NEF), "image/x-nikon-nef"),
    ("nef, other order", tiff(NEF, order=">"), "image/x-nikon-nef"),
    ("arw", tiff({254: 1, 271: b"SONY\0", 330: 1000}), "image/x-sony-arw"),
    ("pef", tiff({259: 65535, 271: b"PENTAX\0"}), "image/x-pentax-pef"),
    ("tiff by nikon's software", tiff({254: 0, 271: b"NIKON\0"}), "image/tiff"),
    ("raf", b"FUJIFILMCCD-RAW 0201FF383501", "image/x-fuji-raf"),
    ("orf", b"IIRO\x08\0\0\0" + b"\0" * 20, "image/x-olympus-orf"),
    ("rw2", b"IIU\0\x18\0\0\0" + b"\0" * 20, "image/x-panasonic-rw2"),
    ("jxl", b"\xff\x0a\xfa\x7f\x01", "image/jxl"),
    ("jxl in boxes", b"\0\0\0\x0cJXL \r\n\x87\n" + ftyp(b"jxl "), "image/jxl"),
    ("svg", b"<?xml version='1.0'?>\n<!-- <html> -->\n<!DOCTYPE svg [<!ENTITY a 'b'>]>\n<svg:svg/>",
     "image/svg+xml"),
    ("bare svg", b'<svg xmlns="http://www.w3.org/2000/svg"></svg>', "image/svg+xml"),
    # documents
    ("pdf", b"%PDF-1.7\n%\xe2\xe3", "application/pdf"),
    ("late pdf", b"\0" * 900 + b"%PDF-1.4", "application/pdf"),
    ("too late pdf", b"\0" * 1100 + b"%PDF-1.4", "application/octet-stream"),
    ("rtf", rb"{\rtf1\ansi hello}", "application/rtf"),
    ("docx", zipped({"[Content_Types].xml": "<a/>", "word/document.xml": "<a/>"}),
     f"{OOXML}wordprocessingml.document"),
    ("xlsx", zipped({"[Content_Types].xml": "<a/>", "xl/workbook.xml": "<a/>"}), f"{OOXML}spreadsheetml.sheet"),
    ("pptx", zipped({"[Content_Types].xml": "<a/>", "ppt/presentation.xml": "<a/>"}),
     f"{OOXML}presentationml.presentation"),
    ("docx cut short", zipped({"[Content_Types].xml": "<a/>", "word/styles.xml": "<a/>" * 99})[:-150],
     f"{OOXML}wordprocessingml.document"),
    ("docx far away", zipped({f"pad/{n}": "x" for n in range(3000)} | {"word/document.xml": "<a/>"}),
     f"{OOXML}wordprocessingml.document"),
    ("odt", zipped({"mimetype": f"{ODF}text", "content.xml": "<a/>"}, stored=["mimetype"]), f"{ODF}text"),
    ("ods", zipped({"mimetype": f"{ODF}spreadsheet", "a": ""}, stored=["mimetype"]), f"{ODF}spreadsheet"),
    ("odp", zipped({"mimetype": f"{ODF}presentation", "a": ""}, stored=["mimetype"]), f"{ODF}presentation"),
    ("epub", zipped({"mimetype": "application/epub+zip"}, stored=["mimetype"]), "application/epub+zip"),
    ("zip that calls itself anything", zipped({"mimetype": "text/evil"}, stored=["mimetype"]),
     "application/zip"),
    ("zip", zipped({"a.txt": "hello"}), "application/zip"),
    ("empty zip", zipped({}), "application/zip"),
    ("jar", zipped({"META-INF/MANIFEST.MF": ""}), "application/java-archive"),
    ("doc", ole("1Table", "WordDocument"), "application/msword"),
    ("xls", ole("Workbook"), "application/vnd.ms-excel"),
    ("old xls", ole("Book"), "application/vnd.ms-excel"),
    ("ppt", ole("Current User", "a", "b", "c", "d", "PowerPoint Document"), "application/vnd.ms-powerpoint"),
    ("msg", ole("__properties_version1.0"), "application/vnd.ms-outlook"),
    ("docx with a password", ole("EncryptionInfo", "EncryptedPackage"), "application/x-ooxml-protected"),
    ("other ole", ole("Something"), "application/x-ole-storage"),
    # archives, programs, data
    ("gzip", gzip.compress(b"hello"), "application/gzip"),
    ("bzip2", bz2.compress(b"hello"), "application/x-bzip2"),
    ("xz", lzma.compress(b"hello"), "application/x-xz"),
    ("zstd", b"\x28\xb5\x2f\xfd\x04\x00", "application/zstd"),
    ("7z", b"7z\xbc\xaf\x27\x1c\0\x04", "application/x-7z-compressed"),
    ("rar", b"Rar!\x1a\x07\x01\0", "application/vnd.rar"),
    ("tar", _tar(), "application/x-tar"),
    ("sqlite", _sqlite(), "application/vnd.sqlite3"),
    ("elf", b"\x7fELF\x02\x01\x01", "application/x-elf"),
    ("exe", b"MZ" + b"\0" * 58 + b"\x40\0\0\0" + b"PE\0\0", "application/vnd.microsoft.portable-executable"),
    # text
    ("html", b"\xef\xbb\xbf\n<!DOCTYPE HTML><title>x</title>", "text/html"),
    ("html behind a comment", b"<!-- saved -->\n<html lang=en>", "text/html"),
    ("xhtml", b"<?xml version='1.0'?><html xmlns='a'/>", "text/html"),
    ("xml", b"<?xml version='1.0'?><feed/>", "application/xml"),
    ("xml in utf-16", "<?xml version='1.0'?><feed/>".encode("utf-16"), "application/xml"),
    ("ics", b"BEGIN:VCALENDAR\r\nVERSION:2.0\r\n", "text/calendar"),
    ("vcf", b"begin:vcard\r\nFN:Ada\r\n", "text/vcard"),
    ("eml", b"Return-Path: <a@b.c>\r\nReceived: from x\r\n\tby y\r\nSubject: hi\r\n\r\nhello", "message/rfc822"),
    ("mbox", b"From a@b.c Mon Jan  1\nFrom: a@b.c\nTo: d@e.f\n\nhello", "message/rfc822"),
    ("one known field", b"Subject: hi\nColour: red\n\nhello", "text/plain"),
    ("a talk", b"From: Ada\nI said\nTo: Bob\n", "text/plain"),
    ("json", b'{"a": [1, 2, {"b": null}]}', "application/json"),
    ("long json", b'[{"a": 1},' + b'{"a": 1},' * 20_000 + b"{}]", "application/json"),
    ("broken json", b'{"a": ', "text/plain"),
    ("csv", b"name,age,town\nAda,36,London\nBob,7,Rome\n", "text/csv"),
    ("csv with semicolons and quotes", b'a;b;c\n1;"x;y";2\n3;4;5\n', "text/csv"),
    ("tsv", b"a\tb\tc\n1\t2\t3\n4\t5\t6\n", "text/csv"),
    ("prose with commas", b"Dear Ada, Bob, Cid\nHello, my, friends\nBye, and, thanks\n", "text/plain"),
    ("markdown", b"# Title\n\nSome [link](https://example.org) and\n\n## More\n", "text/markdown"),
    ("a script", b"#!/bin/sh\n# run\n## all\necho **x**\n", "text/plain"),
    ("settings", b"# comment\n- a\n- b\n", "text/plain"),
    ("plain", "Grüße aus Köln".encode(), "text/plain"),
    ("utf-16", "\ufeffhello".encode("utf-16-le"), "text/plain"),
    ("utf-16 the other way", "\ufeffhello".encode("utf-16-be"), "text/plain"),
    ("latin-1", "Grüße aus Köln".encode("latin-1"), "text/plain"),
    ("russian of 1995", ("Привет, мир. " * 30).encode("cp1251"), "text/plain"),
    ("two letters", b"hi", "text/plain"),
    ("letter cut by the head", b"a" * 65_535 + "ü".encode() + b"a" * 10, "text/plain"),
    # nothing
    ("empty", b"", "application/octet-stream"),
    ("zeros", b"\0" * 1000, "application/octet-stream"),
    ("noise", bytes(range(256)) * 4, "application/octet-stream"),
    ("one byte", b"\xff", "application/octet-stream"),
]  # fmt: skip


@pytest.mark.parametrize(
    ("content", "mime_type"), [each[1:] for each in BYTES], ids=[each[0] for each in BYTES]
)
def test_bytes_give_the_type_away(content: bytes, mime_type: str, tmp_path: Path) -> None:
    (tmp_path / "wrong.jpg").write_bytes(content)
    found = sniff(tmp_path / "wrong.jpg")
    assert found.mime_type == mime_type
    assert found.evidence


def test_the_name_of_a_file_is_not_asked(tmp_path: Path) -> None:
    (tmp_path / "photo.jpg").write_bytes(b"%PDF-1.7")
    assert sniff(tmp_path / "photo.jpg").mime_type == "application/pdf"
