"""Walking a tree: the order, what is left out, hostile names, links, and no trace of having been there."""

from __future__ import annotations

import os
import random
import shutil
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from mediamill.libraries.walk import PATH_BYTES, Listing, identify, is_inside, key_of, kind_of, walk
from mediamill.staging.file_names import to_text
from tests.libraries.scan_ground import ODD_NAMES


def make(root: Path, *paths: str) -> None:
    for path in paths:
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_bytes(b"")


def paths_of(root: Path, after: str | None = None) -> list[str]:
    return [one.rel_path for one in walk(str(root), after) if not one.passed]


def named(listings: list[Listing]) -> set[str]:
    return {key_of(one.rel_path) + to_text(file[0]) for one in listings for file in one.files}


@pytest.mark.spec("L3")
def test_folders_come_in_the_order_of_their_keys_and_those_inside_without_a_gap(tmp_path: Path) -> None:
    for path in ("a/b", "a b", "a-", "a0/x", "a/b c", "a/b/c", "!", "Z", "é/ü", "a.b", "-"):
        (tmp_path / path).mkdir(parents=True)
    found = paths_of(tmp_path)
    assert found == sorted(found, key=key_of)
    assert found[0] == ""
    place = found.index("a")
    assert found[place : place + 4] == ["a", "a/b c", "a/b", "a/b/c"]


@pytest.mark.spec("L3")
def test_from_any_folder_on_the_rest_is_what_a_whole_walk_has_after_it(tmp_path: Path) -> None:
    chance = random.Random(7)
    for _ in range(60):
        parts = [chance.choice(["a", "b", "a b", "é", "z-", "0"]) for _ in range(chance.randint(1, 4))]
        (tmp_path / "/".join(parts)).mkdir(parents=True, exist_ok=True)
    whole = paths_of(tmp_path)
    for number, path in enumerate(whole):
        assert paths_of(tmp_path, path) == whole[number + 1 :]


@pytest.mark.spec("L3")
def test_names_that_are_hidden_junk_or_no_media_are_left_out(tmp_path: Path) -> None:
    make(tmp_path, "a.JPG", "b.Mp4", "c.txt", "jpg", ".hidden.jpg", "._a.jpg", ".cache/d.jpg")
    make(tmp_path, "@eaDir/e.jpg", "$RECYCLE.BIN/f.jpg", "System Volume Information/g.jpg", "h.cr3", "i.jPeG")
    listings = list(walk(str(tmp_path)))
    assert named(listings) == {"a.JPG", "b.Mp4", "h.cr3", "i.jPeG"}
    assert (kind_of("b.Mp4"), kind_of("h.cr3"), kind_of("jpg")) == ("video", "image", None)
    assert listings[0].others == 2


@pytest.mark.spec("L3")
def test_names_of_any_bytes_are_found_and_lead_back_to_their_files(tmp_path: Path) -> None:
    for name in ODD_NAMES:
        (tmp_path / os.fsdecode(name)).write_bytes(b"")
    (listing,) = walk(str(tmp_path))
    assert {os.fsencode(file[0]) for file in listing.files} == set(ODD_NAMES)
    texts = [to_text(file[0]) for file in listing.files]
    assert len(set(texts)) == len(ODD_NAMES)
    assert all(text.encode() for text in texts)


@pytest.mark.spec("L3")
def test_links_loops_pipes_and_sockets_do_no_harm(tmp_path: Path) -> None:
    make(tmp_path, "a/one.jpg")
    (tmp_path / "a" / "loop").symlink_to(tmp_path, target_is_directory=True)
    (tmp_path / "link.jpg").symlink_to("a/one.jpg")
    (tmp_path / "broken.jpg").symlink_to("nothing")
    os.mkfifo(tmp_path / "pipe.jpg")
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(tmp_path / "socket.jpg"))
        listings = list(walk(str(tmp_path)))
    assert named(listings) == {"a/one.jpg"}
    assert sum(one.links for one in listings) == 3
    assert sum(one.others for one in listings) == 2


@pytest.mark.spec("L3")
def test_very_deep_trees_end_where_paths_are_too_long(tmp_path: Path) -> None:
    here = os.open(tmp_path, os.O_RDONLY)
    for _ in range(60):  # far beyond what one path can name
        os.mkdir("d" * 100, dir_fd=here)
        os.close(os.open("deep.jpg", os.O_CREAT | os.O_WRONLY, dir_fd=here))
        inner = os.open("d" * 100, os.O_RDONLY, dir_fd=here)
        os.close(here)
        here = inner
    os.close(here)
    listings = list(walk(str(tmp_path)))
    assert all(len(one.rel_path.encode()) <= PATH_BYTES for one in listings)
    assert len(listings) == PATH_BYTES // 101 + 1
    assert listings[-1].too_long >= 1
    assert len(named(listings)) >= len(listings) - 1
    shutil.rmtree(tmp_path / ("d" * 100))


@pytest.mark.spec("L3")
def test_a_folder_that_vanishes_or_becomes_a_link_while_others_are_read_is_trouble(tmp_path: Path) -> None:
    make(tmp_path, "a/one.jpg", "b/two.jpg", "c/three.jpg")
    seen = {}
    for listing in walk(str(tmp_path)):
        seen[listing.rel_path] = listing.trouble
        if listing.rel_path == "a":
            shutil.rmtree(tmp_path / "b")
            shutil.rmtree(tmp_path / "c")
            (tmp_path / "c").symlink_to("a")
    assert seen[""] is None
    assert seen["a"] is None
    assert seen["b"] == "No such file or directory"
    assert seen["c"] is not None


@pytest.mark.spec("L3")
def test_a_listing_that_breaks_off_is_trouble_and_shows_no_half_of_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    make(tmp_path, *(f"{number}.jpg" for number in range(10)))
    real = os.scandir

    class Broken:
        def __init__(self, opened: int) -> None:
            self._entries = real(opened)

        def __enter__(self) -> Broken:
            return self

        def __exit__(self, *_: object) -> None:
            self._entries.close()

        def __iter__(self) -> Broken:
            return self

        def __next__(self) -> os.DirEntry[str]:
            if not hasattr(self, "left"):
                self.left = 4
            self.left -= 1
            if self.left == 0:
                raise OSError(5, "Input/output error")
            return next(self._entries)

    monkeypatch.setattr(os, "scandir", Broken)
    (listing,) = walk(str(tmp_path))
    assert listing.trouble == "Input/output error"
    assert listing.files == []


@pytest.mark.spec("L3")
def test_a_digest_depends_on_every_name_time_size_and_inode_and_on_nothing_else(tmp_path: Path) -> None:
    make(tmp_path, "a.jpg", "b.jpg")

    def digest() -> bytes:
        return next(iter(walk(str(tmp_path)))).digest

    digests = [digest()]
    assert digest() == digests[0]
    make(tmp_path, "notes.txt", ".hidden.jpg")
    assert digest() == digests[0]
    os.utime(tmp_path / "a.jpg", ns=(1, 10**18 + 1))
    digests.append(digest())
    (tmp_path / "b.jpg").write_bytes(b"more")
    os.utime(tmp_path / "b.jpg", ns=(1, 10**18))
    digests.append(digest())
    (tmp_path / "b.jpg").rename(tmp_path / "c.jpg")
    digests.append(digest())
    shutil.copy2(tmp_path / "c.jpg", tmp_path / "d.txt")
    (tmp_path / "d.txt").rename(tmp_path / "c.jpg")
    digests.append(digest())
    assert len(set(digests)) == len(digests)


@pytest.mark.spec("L3")
def test_times_beyond_what_the_database_counts_are_cut_to_it(tmp_path: Path) -> None:
    make(tmp_path, "far.jpg")
    try:
        os.utime(tmp_path / "far.jpg", (2**40, 2**40))
    except OverflowError:
        pytest.skip("this system has no such times")
    (listing,) = walk(str(tmp_path))
    assert abs(listing.files[0][1]) < 2**63


def test_the_folder_to_avoid_is_left_out_by_whatever_name(tmp_path: Path) -> None:
    make(tmp_path, "data/made.jpg", "own/a.jpg")
    assert named(list(walk(str(tmp_path), None, identify(f"{tmp_path}/own/../data")))) == {"own/a.jpg"}


WALKER = """
import sys
from mediamill.libraries.walk import walk
sys.stdout.write(str(sum(len(one.files) for one in walk(sys.argv[1]))))
"""


@pytest.mark.spec("L3")
def test_no_file_is_opened_and_no_time_is_moved(tmp_path: Path) -> None:
    strace = shutil.which("strace")
    if strace is None:
        pytest.skip("needs strace")
    root, log = tmp_path / "root", tmp_path / "calls"
    make(root, "a.jpg", "b/c.mp4", "b/d/e.jpg", "b/notes.txt")
    everything = [root, *root.rglob("*")]
    for path in everything:
        os.utime(path, ns=(10**18, 2 * 10**18))  # read longer ago than written: the next read would be noted
    before = [path.lstat() for path in everything]
    calls = "trace=open,openat,openat2,creat,utimensat,chmod,unlink,rename,renameat,flock"
    words = [strace, "-f", "-e", calls, "-o", str(log), sys.executable, "-c", WALKER, str(root)]
    told = subprocess.run(words, capture_output=True, text=True, timeout=120, check=False)
    if "ptrace" in told.stderr:
        pytest.skip("strace is not allowed here")
    assert told.stdout == "3", told.stderr
    inside = [line for line in log.read_text().splitlines() if f'"{root}' in line]
    assert len(inside) == 3
    assert all("O_DIRECTORY" in line and "O_RDONLY" in line for line in inside)
    times = [(one.st_atime_ns, one.st_mtime_ns, one.st_ctime_ns) for one in before]
    after = [path.lstat() for path in everything]
    assert [(one.st_atime_ns, one.st_mtime_ns, one.st_ctime_ns) for one in after] == times


IMAGES = (
    "jpg jpeg jpe jfif png gif webp tif tiff bmp heic heif hif avif dng cr2 cr3 nef nrw arw srf sr2 "
    "raf orf rw2 pef srw 3fr fff iiq rwl erf dcr kdc mef mos"
)
VIDEOS = "mp4 m4v mov qt mkv webm avi mpg mpeg mpe m2v vob mts m2ts ts 3gp 3g2 wmv asf flv f4v ogv mxf"


def test_images_and_videos_are_known_by_their_endings_however_they_are_spelled() -> None:
    for kind, endings in (("image", IMAGES), ("video", VIDEOS)):
        for ending in endings.split():
            for name in (ending, ending.upper(), ending.title()):
                assert kind_of(f"a.b.{name}") == kind, name
    for name in ("a", "a.txt", "jpg", "a.jpg.txt", "a.", ".", ""):
        assert kind_of(name) is None
    for ending in ("jxl", "jp2", "psd", "crw", "x3f", "mrw"):  # nothing here opens them
        assert kind_of(f"a.{ending}") is None


@pytest.mark.spec("L3")
def test_what_boxes_and_systems_keep_beside_ones_files_is_left_out(tmp_path: Path) -> None:
    junk = [
        *("@eaDir", "@tmp", "@sharebin", "@Recycle", "@Recently-Snapshot", "#recycle", "#snapshot"),
        *("lost+found", "$RECYCLE.BIN", "RECYCLER", "System Volume Information", ".hidden"),
    ]
    make(tmp_path, *(f"{name}/a.jpg" for name in (*junk, "tmp", "recycle")))
    assert paths_of(tmp_path) == ["", "recycle", "tmp"]


def test_numbers_that_no_database_takes_are_made_to_fit_and_stay_different() -> None:
    listing = Listing("")
    largest = 2**63 - 1
    listing.pack([("b", 2**70, largest, 2**64 - 1), ("a", -(2**70), 0, 2**63)])
    assert listing.files == [("a", -largest, 0, -(2**63)), ("b", largest, largest, -1)]
    assert (listing.count, len(listing.digest), listing.is_empty) == (2, 16, False)
    nothing = Listing("")
    nothing.pack([])
    assert (nothing.files, nothing.count, nothing.digest, nothing.is_empty) == ([], 0, b"", True)
    assert not Listing("", folders=["a"]).is_empty


def test_a_folder_is_inside_another_by_whatever_name(tmp_path: Path) -> None:
    (tmp_path / "a" / "b").mkdir(parents=True)
    (tmp_path / "link").symlink_to(tmp_path / "a")
    folder = identify(str(tmp_path / "a"))
    assert folder == ((tmp_path / "a").stat().st_dev, (tmp_path / "a").stat().st_ino)
    for inside in ("a", "a/b", "link", "link/b", "a/not there"):
        assert is_inside(str(tmp_path / inside), folder), inside
    for outside in ("", "c", "a/.."):
        assert not is_inside(str(tmp_path / outside), folder), outside
    assert identify(str(tmp_path / "not there")) is None
    assert not is_inside(str(tmp_path), None)
