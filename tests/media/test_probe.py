"""Facts about sound and video, and what opening a stranger's file may never do."""

from __future__ import annotations

import io
import struct
from pathlib import Path

import av
import pytest
from PIL import Image

from mediamill.media.errors import DamagedMediaError, MissingMediaError, UnsupportedMediaError
from mediamill.media.open_media import OPTIONS, READERS
from mediamill.media.probe import open_media, probe
from tests.media.making import FILMS, make_film


@pytest.fixture(scope="module")
def film(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("film") / "film"
    return make_film(path, "mp4", "libx264", "aac", seconds=8, options={"movflags": "faststart"})


@pytest.mark.spec("C26")
@pytest.mark.parametrize(("container", "video", "audio", "mime_type"), FILMS)
def test_every_format_that_is_sniffed_can_be_probed(
    container: str, video: str | None, audio: str | None, mime_type: str, tmp_path: Path
) -> None:
    facts = probe(make_film(tmp_path / "film", container, video, audio, seconds=2))
    assert facts.mime_type == mime_type
    assert (facts.has_video, facts.has_audio) == (video is not None, audio is not None)
    assert facts.duration_seconds == pytest.approx(2, abs=0.25)


def test_a_film_has_the_facts_of_its_streams(film: Path) -> None:
    facts = probe(film)
    assert facts.duration_seconds == pytest.approx(8, abs=0.1)
    assert facts.bit_rate
    assert facts.video is not None
    assert (facts.video.codec, facts.video.width, facts.video.height) == ("h264", 64, 48)
    assert (facts.video.rotation, facts.video.fps, facts.video.hdr) == (0, 10, False)
    assert facts.video.pixel_format == "yuv420p"
    assert facts.audio is not None
    assert (facts.audio.codec, facts.audio.sample_rate, facts.audio.channels) == ("aac", 48000, 1)


@pytest.mark.parametrize(
    ("turned", "rotation", "size"), [(-90, 90, (48, 64)), (90, 270, (48, 64)), (180, 180, (64, 48))]
)
def test_a_film_held_sideways_is_measured_upright(
    turned: int, rotation: int, size: tuple[int, int], tmp_path: Path
) -> None:
    facts = probe(make_film(tmp_path / "film", "mp4", "libx264", turned=turned)).video
    assert facts is not None
    assert (facts.rotation, (facts.width, facts.height)) == (rotation, size)


def test_hdr_is_recognized(tmp_path: Path) -> None:
    with av.open(str(tmp_path / "film"), "w", format="mp4") as out:
        stream = out.add_stream("libx264", rate=10)
        stream.width, stream.height, stream.pix_fmt = 64, 48, "yuv420p"
        stream.codec_context.color_trc, stream.codec_context.color_primaries = 16, 9  # PQ, BT.2020
        for _ in range(3):
            out.mux(stream.encode(av.VideoFrame(64, 48, "yuv420p")))
        out.mux(stream.encode(None))
    facts = probe(tmp_path / "film").video
    assert facts is not None
    assert facts.hdr


def test_the_cover_of_a_song_is_no_video(tmp_path: Path) -> None:
    out = io.BytesIO()
    Image.new("RGB", (50, 50), "red").save(out, "JPEG")
    picture = b"\0image/jpeg\0\x03\0" + out.getvalue()
    frame = b"APIC" + struct.pack(">I", len(picture)) + b"\0\0" + picture
    size = len(frame)
    tag = b"ID3\x03\0\0" + bytes(size >> shift & 0x7F for shift in (21, 14, 7, 0)) + frame
    sound = make_film(
        tmp_path / "song", "mp3", None, "libmp3lame", options={"id3v2_version": "0"}
    ).read_bytes()
    (tmp_path / "song").write_bytes(tag + sound)
    with open_media(tmp_path / "song") as container:
        assert len(container.streams.video) == 1
    facts = probe(tmp_path / "song")
    assert facts.has_audio
    assert not facts.has_video


def test_tags_are_few_short_and_printable(tmp_path: Path) -> None:
    tags = {"title": "My\x1b[31m song" + "x" * 10_000, "artist": "Ada", "nonsense": "no"}
    facts = probe(make_film(tmp_path / "song", "flac", None, "flac", tags=tags))
    assert facts.tags["title"].startswith("My [31m song")
    assert len(facts.tags["title"]) == 500
    assert facts.tags["artist"] == "Ada"
    assert "nonsense" not in facts.tags


def lengthen(content: bytes, name: bytes, seconds: int) -> bytes:
    """Change the duration in every `mvhd` or `mdhd` box."""
    parts = content.split(name)
    for number, part in enumerate(parts[1:], start=1):
        scale = struct.unpack(">I", part[12:16])[0]
        parts[number] = part[:16] + struct.pack(">I", scale * seconds) + part[20:]
    return name.join(parts)


def test_an_mp4_that_claims_ten_hours_is_not_believed(film: Path, tmp_path: Path) -> None:
    lie = lengthen(lengthen(film.read_bytes(), b"mvhd", 36_000), b"mdhd", 36_000)
    (tmp_path / "lie").write_bytes(lie)
    assert lie != film.read_bytes()
    assert probe(tmp_path / "lie").duration_seconds == pytest.approx(8, abs=0.5)


def test_a_matroska_that_claims_ten_hours_is_not_believed(tmp_path: Path) -> None:
    content = make_film(tmp_path / "lie", "matroska", "libx264", "aac", seconds=3).read_bytes()
    at = content.index(b"\x44\x89\x88") + 3
    (tmp_path / "lie").write_bytes(content[:at] + struct.pack(">d", 36_000_000.0) + content[at + 8 :])
    with open_media(tmp_path / "lie") as container:
        assert container.duration == 36_000 * 1_000_000
    assert probe(tmp_path / "lie").duration_seconds == pytest.approx(3, abs=0.2)


def test_a_film_that_was_cut_is_as_long_as_what_is_left(film: Path, tmp_path: Path) -> None:
    content = film.read_bytes()
    (tmp_path / "cut").write_bytes(content[: len(content) * 6 // 10])
    seconds = probe(tmp_path / "cut").duration_seconds
    assert seconds is not None
    assert 2 < seconds < 7


def test_a_wave_file_that_claims_more_than_it_has_is_not_believed(tmp_path: Path) -> None:
    content = make_film(tmp_path / "cut", "wav", None, "pcm_s16le", seconds=4).read_bytes()
    (tmp_path / "cut").write_bytes(content[: len(content) // 2])
    assert probe(tmp_path / "cut").duration_seconds == pytest.approx(2, abs=0.2)


def test_a_large_file_without_an_index_is_not_read_to_its_end(tmp_path: Path) -> None:
    note = make_film(tmp_path / "note", "amr", None, "libopencore_amrnb", rate=8000, seconds=10).read_bytes()
    (tmp_path / "large").write_bytes(note + note[6:] * (20_000_000 // len(note)))
    before = read_bytes()
    seconds = probe(tmp_path / "large").duration_seconds
    assert read_bytes() - before < 8_000_000
    assert seconds == pytest.approx(20_000_000 / (len(note) / 10), rel=0.1)


def read_bytes() -> int:
    return int(Path("/proc/self/io").read_text().split()[1])


PLAYLIST = "#EXTM3U\n#EXT-X-TARGETDURATION:8\n#EXTINF:8,\n{other}\n#EXT-X-ENDLIST\n"
CONCAT = "ffconcat version 1.0\nfile '{other}'\n"


@pytest.mark.spec("C29")
@pytest.mark.parametrize("script", [PLAYLIST, CONCAT], ids=["hls", "concat"])
@pytest.mark.parametrize("mime_type", sorted(set(READERS)))
def test_a_script_can_never_make_us_read_another_file(
    script: str, mime_type: str, tmp_path: Path, private: Path
) -> None:
    trap = tmp_path / "trap.mp4"
    trap.write_text(script.format(other=private))
    try:
        with open_media(trap, mime_type) as container:
            got = b"".join(bytes(packet) for packet in container.demux())
    except (DamagedMediaError, av.FFmpegError):
        got = b""
    assert got in trap.read_bytes()  # some readers take any bytes for sound, but only its own
    with pytest.raises(UnsupportedMediaError):
        probe(trap)


@pytest.fixture(scope="module")
def private(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_film(tmp_path_factory.mktemp("private") / "other.ts", "mpegts", "libx264", "aac")


def test_the_traps_above_are_real(private: Path, tmp_path: Path) -> None:
    (tmp_path / "trap.m3u8").write_text(PLAYLIST.format(other=private))
    (tmp_path / "trap.ffconcat").write_text(CONCAT.format(other=private))
    for name, options in (("trap.m3u8", {}), ("trap.ffconcat", {"safe": "0"})):
        with av.open(
            str(tmp_path / name), options={**OPTIONS, "protocol_whitelist": "file", **options}
        ) as container:
            assert container.streams.video


def test_a_name_that_looks_like_an_address_is_a_name(
    film: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    for name in ("http:x", "concat:a|b", "%03d.mp4", "data:,", "-i", "ü\n'\"", "\udcff.mp4"):
        Path(name).write_bytes(film.read_bytes())
        assert probe(Path(name)).has_video


def test_damage_is_told_in_plain_words(film: Path, tmp_path: Path) -> None:
    (tmp_path / "cut").write_bytes(film.read_bytes()[:100])
    with pytest.raises(DamagedMediaError, match=r"the video/mp4 file is damaged: .+"):
        probe(tmp_path / "cut")


def test_what_is_no_sound_or_video_is_unsupported(tmp_path: Path) -> None:
    (tmp_path / "text").write_text("hello")
    with pytest.raises(UnsupportedMediaError, match="text/plain"):
        probe(tmp_path / "text")


def test_a_file_that_is_gone_is_missing(tmp_path: Path) -> None:
    with pytest.raises(MissingMediaError):
        probe(tmp_path / "gone")
    with pytest.raises(MissingMediaError):
        open_media(tmp_path / "gone", "video/mp4")


def test_damaged_films_give_facts_or_a_reason(film: Path, tmp_path: Path) -> None:
    content = film.read_bytes()
    reasons: list[str] = []
    for place in range(0, len(content), len(content) // 60):
        broken = bytearray(content)
        broken[place : place + 40] = b"\xff" * 40
        (tmp_path / "broken").write_bytes(broken)
        try:
            facts = probe(tmp_path / "broken")
        except (DamagedMediaError, UnsupportedMediaError) as error:
            reasons.append(error.message)
        else:
            assert facts.duration_seconds is None or 0 < facts.duration_seconds < 1e9
    assert reasons
    assert all(len(reason) > 20 for reason in reasons)
