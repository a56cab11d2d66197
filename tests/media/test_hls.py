"""HLS playlists: by the rules when written; when read, ours and nothing else."""

from __future__ import annotations

import math
import re
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mediamill.media.hls import (
    AudioTrack,
    BadPlaylistError,
    Master,
    Playlist,
    Segment,
    Variant,
    build_master,
    check_output,
    init_name,
    playlist_name,
    rates_of,
    read_master,
    read_playlist,
    segment_name,
    target_for,
    write_master,
    write_playlist,
)
from mediamill.media.seek_track import Preview, write_seek_track

pytestmark = pytest.mark.spec("V4", "V8")

VIDEO = Variant("720p.m3u8", 3_000_000, 2_000_000, "avc1.64001f", 1280, 720, 29.97)
SMALL = Variant("360p.m3u8", 900_000, 600_000, "avc1.64001e", 640, 360, 29.97)
LARGE = Variant("1080p.m3u8", 6_000_000, 4_000_000, "avc1.640028", 1920, 1080, 29.97)
SOUND = Variant("audio.m3u8", 140_000, 128_000, "mp4a.40.2")

qualities = st.sampled_from(["2160p", "1440p", "1080p", "720p", "480p", "360p"])
languages = st.none() | st.sampled_from(["en", "deu", "pt-BR"])


@st.composite
def playlists(draw: st.DrawFn) -> Playlist:
    quality = draw(qualities | st.just("audio"))
    lengths = draw(st.lists(st.integers(1_000, 12_000_000), min_size=1, max_size=20))
    segments = [Segment(segment_name(quality, at), one / 1e6) for at, one in enumerate(lengths)]
    return Playlist(init_name(quality), tuple(segments), target_for(segments))


@st.composite
def masters(draw: st.DrawFn) -> Master:
    names = draw(st.lists(qualities, unique=True, max_size=6))
    rates = st.integers(1, 80_000_000)
    videos = [
        Variant(
            playlist_name(name),
            max(pair := (draw(rates), draw(rates))),
            min(pair),
            draw(st.sampled_from(["avc1.64001f", "hvc1.1.6.L93.B0"])),
            draw(st.integers(2, 8000)),
            draw(st.integers(2, 8000)),
            draw(st.integers(1_000, 240_000)) / 1000,
        )
        for name in names
    ]
    sound = SOUND if not videos or draw(st.booleans()) else None
    return build_master(videos, sound, AudioTrack(draw(st.integers(1, 16)), draw(languages)))


def output(seek: bool = True) -> dict[str, str]:
    """A whole output as texts; what is binary is "x"."""
    files = {"poster.jpg": "x", "thumbnail.jpg": "x"}
    for name in ("720p", "360p", "audio"):
        segments = tuple(Segment(segment_name(name, index), 4.0, 1000) for index in range(3))
        files |= {segment.name: "x" for segment in segments} | {init_name(name): "x"}
        files[playlist_name(name)] = write_playlist(Playlist(init_name(name), segments, 4))
    files["master.m3u8"] = write_master(build_master([VIDEO, SMALL], SOUND))
    if seek:
        files |= {"sprite-000.jpg": "x", "seek.vtt": write_seek_track([PREVIEW])}
    return files


PREVIEW = Preview(0, 5000, "sprite-000.jpg", 160, 90, 160, 90)


def faults(files: dict[str, str], sizes: dict[str, int] | None = None) -> list[str]:
    return check_output({name: len(text) for name, text in files.items()} | (sizes or {}), files.__getitem__)


def test_a_media_playlist_says_what_apple_asks_for() -> None:
    text = write_playlist(
        Playlist("720p-init.mp4", (Segment("720p-00000.m4s", 4.004), Segment("720p-00001.m4s", 1 / 3)), 5)
    )
    assert text.splitlines() == [
        "#EXTM3U",
        "#EXT-X-VERSION:7",
        "#EXT-X-TARGETDURATION:5",
        "#EXT-X-MEDIA-SEQUENCE:0",
        "#EXT-X-PLAYLIST-TYPE:VOD",
        "#EXT-X-INDEPENDENT-SEGMENTS",
        '#EXT-X-MAP:URI="720p-init.mp4"',
        "#EXTINF:4.004000,",
        "720p-00000.m4s",
        "#EXTINF:0.333333,",
        "720p-00001.m4s",
        "#EXT-X-ENDLIST",
    ]


def test_a_master_begins_with_a_middle_quality_and_shares_the_sound() -> None:
    text = write_master(build_master([LARGE, VIDEO, SMALL], SOUND, AudioTrack(2, "en")))
    assert text.splitlines() == [
        "#EXTM3U",
        "#EXT-X-VERSION:7",
        "#EXT-X-INDEPENDENT-SEGMENTS",
        '#EXT-X-MEDIA:TYPE=AUDIO,GROUP-ID="audio",NAME="Audio",LANGUAGE="en",DEFAULT=YES,AUTOSELECT=YES,'
        'CHANNELS="2",URI="audio.m3u8"',
        '#EXT-X-STREAM-INF:BANDWIDTH=3140000,AVERAGE-BANDWIDTH=2128000,CODECS="avc1.64001f,mp4a.40.2",'
        'RESOLUTION=1280x720,FRAME-RATE=29.970,VIDEO-RANGE=SDR,CLOSED-CAPTIONS=NONE,AUDIO="audio"',
        "720p.m3u8",
        '#EXT-X-STREAM-INF:BANDWIDTH=6140000,AVERAGE-BANDWIDTH=4128000,CODECS="avc1.640028,mp4a.40.2",'
        'RESOLUTION=1920x1080,FRAME-RATE=29.970,VIDEO-RANGE=SDR,CLOSED-CAPTIONS=NONE,AUDIO="audio"',
        "1080p.m3u8",
        '#EXT-X-STREAM-INF:BANDWIDTH=1040000,AVERAGE-BANDWIDTH=728000,CODECS="avc1.64001e,mp4a.40.2",'
        'RESOLUTION=640x360,FRAME-RATE=29.970,VIDEO-RANGE=SDR,CLOSED-CAPTIONS=NONE,AUDIO="audio"',
        "360p.m3u8",
    ]


def test_a_silent_video_has_no_group_of_sound_and_sound_alone_is_a_variant() -> None:
    silent = write_master(build_master([VIDEO], None))
    assert "AUDIO" not in silent
    assert "mp4a" not in silent
    alone = write_master(build_master([], SOUND))
    assert alone.splitlines()[-2:] == [
        '#EXT-X-STREAM-INF:BANDWIDTH=140000,AVERAGE-BANDWIDTH=128000,CODECS="mp4a.40.2"',
        "audio.m3u8",
    ]
    assert read_master(alone) == Master((SOUND,))


def test_a_language_that_is_none_is_left_out() -> None:
    text = write_master(build_master([VIDEO], SOUND, AudioTrack(2, 'e",URI="http://evil')))
    assert "evil" not in text
    assert read_master(text).audio == AudioTrack(2)


def test_the_peak_is_that_of_a_segment_and_a_short_tail_does_not_count_alone() -> None:
    segments = [
        Segment("720p-00000.m4s", 4.0, 1_000_000),
        Segment("720p-00001.m4s", 4.0, 500_000),
        Segment("720p-00002.m4s", 0.04, 60_000),
    ]
    peak, average = rates_of(segments, 4)
    assert peak == 2_000_000
    assert average == math.ceil(1_560_000 * 8 / 8.04)
    assert rates_of(segments[2:], 4) == (12_000_000, 12_000_000)


@given(st.lists(st.tuples(st.integers(1, 12_000), st.integers(0, 10**7)), min_size=1, max_size=30))
def test_the_peak_is_never_below_the_average_or_a_full_segment(pairs: list[tuple[int, int]]) -> None:
    segments = [Segment(f"{at}", length / 1000, size) for at, (length, size) in enumerate(pairs)]
    target = target_for(segments)
    peak, average = rates_of(segments, target)
    assert peak >= average
    full = [one.bytes * 8 / one.seconds for one in segments if one.seconds >= target / 2]
    assert peak + 1 >= max(full, default=0)


@given(playlists())
def test_a_media_playlist_is_read_back(playlist: Playlist) -> None:
    assert read_playlist(write_playlist(playlist)) == playlist


@given(masters())
def test_a_master_is_read_back(master: Master) -> None:
    assert read_master(write_master(master)) == master


@given(masters())
def test_the_first_variant_is_the_nearest_to_two_megabits_and_the_rest_fall(master: Master) -> None:
    distances = [abs(one.average_bandwidth - 2_000_000) for one in master.variants]
    assert distances[0] == min(distances)
    rest = [one.bandwidth for one in master.variants[1:]]
    assert rest == sorted(rest, reverse=True)


LINES = st.sampled_from(
    [
        "",
        " ",
        "#EXTM3U",
        "#EXT-X-ENDLIST",
        "#EXTINF:4.000000,",
        "#EXTINF:nan,",
        "#EXTINF:1e9,",
        "#EXTINF:٤.000000,",
        "#EXT-X-TARGETDURATION:1",
        '#EXT-X-KEY:METHOD=AES-128,URI="http://evil/key"',
        '#EXT-X-MAP:URI="../../etc/passwd"',
        "http://evil/x.m4s",
        "//evil/x.m4s",
        "..",
        "720p-00000.m4s",
        "720p-00000.m4s\r",
        "720p-00000.m4s#EXT",
        "%2e%2e%2fx",
        "720p.m3u8",
    ]
)


@given(st.data())
def test_mutated_text_is_read_or_refused_and_never_more(data: st.DataObject) -> None:
    files = output()
    name = data.draw(st.sampled_from(sorted(name for name in files if len(files[name]) > 1)))
    text = files[name]
    match data.draw(st.integers(0, 3)):
        case 0:  # a line put in, or in place of another
            lines = text.split("\n")
            at = data.draw(st.integers(0, len(lines) - 1))
            lines[at : at + data.draw(st.integers(0, 1))] = [data.draw(LINES)]
            text = "\n".join(lines)
        case 1:
            at = data.draw(st.integers(0, len(text)))
            text = text[:at] + data.draw(st.text(max_size=5)) + text[at + data.draw(st.integers(0, 5)) :]
        case 2:
            text = text[: data.draw(st.integers(0, len(text)))]
        case _:
            text = data.draw(st.text(max_size=200))
    found = faults(files | {name: text})
    assert isinstance(found, list)
    if not found:  # then it names nothing but what is there, and holds nothing that leads out
        assert set(re.findall(r"[\w./:%-]+\.(?:m4s|mp4|m3u8|jpg)", text)) <= files.keys()
        assert "//" not in text


def test_a_whole_output_has_no_faults() -> None:
    assert faults(output()) == []
    assert faults(output(seek=False)) == []


@pytest.mark.parametrize(
    ("gone", "fault"),
    [
        ("master.m3u8", "master.m3u8: it is missing"),
        ("720p.m3u8", "720p.m3u8: it is missing"),
        ("audio.m3u8", "audio.m3u8: it is missing"),
        ("360p-init.mp4", "360p.m3u8 lists 360p-init.mp4, which is missing"),
        ("720p-00001.m4s", "720p.m3u8 lists 720p-00001.m4s, which is missing"),
        ("audio-00002.m4s", "audio.m3u8 lists audio-00002.m4s, which is missing"),
        ("sprite-000.jpg", "seek.vtt names sprite-000.jpg, which is missing"),
    ],
)
def test_what_is_listed_must_be_there(gone: str, fault: str) -> None:
    files = output()
    del files[gone]
    assert faults(files) == [fault]


@pytest.mark.parametrize(
    "name",
    ["index.html", "../x.m4s", "720p-1.m4s", "/etc/passwd", "720P.m3u8", "", "a" * 300, "720p-00000.m4s\n"],
)
def test_files_that_do_not_belong_to_an_output_are_refused(name: str) -> None:
    found = faults({**output(), name: "x"})
    assert len(found) == 1
    assert "does not belong" in found[0]
    assert len(found[0]) < 200


def test_segments_of_a_quality_that_failed_half_way_do_no_harm() -> None:
    assert faults({**output(), "1080p-init.mp4": "x", "1080p-00000.m4s": "x"}) == []


@pytest.mark.parametrize(("size", "fault"), [(0, "empty"), (-1, "empty"), (10**12, "too large")])
def test_a_file_has_a_size_that_makes_sense(size: int, fault: str) -> None:
    assert faults(output(), {"720p-00000.m4s": size}) == [f"720p-00000.m4s is {fault}"]


def test_a_playlist_that_is_too_large_is_not_even_read() -> None:
    files = output()

    def read(name: str) -> str:
        assert name != "720p.m3u8"
        return files[name]

    sizes = {name: len(text) for name, text in files.items()} | {"720p.m3u8": 5_000_000}
    assert check_output(sizes, read) == ["720p.m3u8: it has more than 4000000 bytes"]


def test_bytes_that_are_no_text_are_a_fault() -> None:
    files = output()

    def read(name: str) -> str:
        return b"\xff\xfe\x00".decode() if name == "360p.m3u8" else files[name]

    sizes = {name: len(text) for name, text in files.items()}
    assert check_output(sizes, read) == ["360p.m3u8: it is not there, or no text"]


@pytest.mark.parametrize(
    ("old", "new", "fault"),
    [
        ("720p-00001.m4s", "720p-00000.m4s", "lists 720p-00000.m4s where 720p-00001.m4s is due"),
        ("720p-00001.m4s", "360p-00001.m4s", "lists 360p-00001.m4s where 720p-00001.m4s is due"),
        ("720p-00001.m4s", "../720p-00001.m4s", "the name of a segment expected"),
        ("720p-00001.m4s", "http://evil.example/x.m4s", "the name of a segment expected"),
        ('URI="720p-init.mp4"', 'URI="/720p-init.mp4"', "the name of an init file expected"),
        ("#EXTINF:4.000000,", "#EXTINF:inf,", "#EXT-X-ENDLIST expected"),
        ("#EXTINF:4.000000,", "#EXTINF:0.000000,", "segment 1 lasts 0.0 seconds"),
        ("#EXTINF:4.000000,", "#EXTINF:4.500000,", "longer than the target of 4 seconds"),
        ("#EXT-X-ENDLIST\n", "", "#EXT-X-ENDLIST expected, not its end"),
        ("#EXT-X-ENDLIST\n", "#EXT-X-ENDLIST", "does not end with the end of a line"),
        ("TARGETDURATION:4", "TARGETDURATION:-4", "a target duration expected"),
    ],
)
def test_a_media_playlist_with_a_fault_is_refused(old: str, new: str, fault: str) -> None:
    files = output()
    assert old in files["720p.m3u8"]
    found = faults(files | {"720p.m3u8": files["720p.m3u8"].replace(old, new)})
    assert found[0].startswith("720p.m3u8")
    assert fault in found[0]


@pytest.mark.parametrize(
    ("old", "new", "fault"),
    [
        ("360p.m3u8", "720p.m3u8", "lists a playlist twice"),
        ("360p.m3u8", "master.m3u8", "the name of a playlist expected"),
        ("360p.m3u8", "//evil.example/360p.m3u8", "the name of a playlist expected"),
        ('URI="audio.m3u8"', 'URI="https://evil.example/"', "a variant expected"),
        (',AUDIO="audio"', "", "names a group of sound"),
        ("RESOLUTION=1280x720", "RESOLUTION=0x720", "neither size nor frame rate can be 0"),
        ("BANDWIDTH=3140000", "BANDWIDTH=1", "not above the peak"),
        ("#EXT-X-INDEPENDENT-SEGMENTS\n", "", "#EXT-X-INDEPENDENT-SEGMENTS expected"),
    ],
)
def test_a_master_with_a_fault_is_refused(old: str, new: str, fault: str) -> None:
    files = output()
    assert old in files["master.m3u8"]
    found = faults(files | {"master.m3u8": files["master.m3u8"].replace(old, new, 1)})
    assert found[0].startswith("master.m3u8")
    assert fault in found[0]


def test_a_seek_track_leads_to_our_sprites_only() -> None:
    files = output()
    hostile = files["seek.vtt"].replace("sprite-000.jpg", "https://evil.example/a.jpg")
    assert "picture 1" in faults(files | {"seek.vtt": hostile})[0]


def test_faults_are_told_up_to_a_limit() -> None:
    assert len(faults({f"x{number}.html": "x" for number in range(100)})) == 30


def test_endless_lists_are_refused() -> None:
    one = "#EXTINF:1.000000,\n720p-00000.m4s\n"
    text = write_playlist(Playlist("720p-init.mp4", (), 4)).replace(
        "#EXT-X-ENDLIST", one * 50_001 + "#EXT-X-ENDLIST"
    )
    with pytest.raises(BadPlaylistError, match="more than 50000 segments"):
        read_playlist(text)
    many = Master(tuple(replace(VIDEO, playlist=f"{number}p.m3u8") for number in range(100, 130)))
    with pytest.raises(BadPlaylistError, match="more than 20 variants"):
        read_master(write_master(many))
    with pytest.raises(BadPlaylistError, match="no segments"):
        read_playlist(write_playlist(Playlist("720p-init.mp4", (), 4)))
    with pytest.raises(BadPlaylistError, match="no variants"):
        read_master(write_master(Master(())))
