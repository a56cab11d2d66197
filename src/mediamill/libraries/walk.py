"""Reads a tree of folders: names and stat, nothing else; no file is opened, no link followed, no time of access moved.

Folders come depth first, each before those inside it, in the order of `key_of`: of plain text, so that a database has
the same order, and everything inside a folder follows it without a gap. A scan that was cut off goes on from there.
"""

from __future__ import annotations

import os
from array import array
from collections.abc import Iterator
from dataclasses import dataclass, field
from hashlib import blake2b
from operator import itemgetter
from pathlib import Path

from mediamill.staging.file_names import to_text

PATH_BYTES = 2500  # what an index of PostgreSQL takes, with some air
SYSTEM_PATH_BYTES = 4000  # what the system takes in one call
NAME_BYTES = 255 * 4 + 1  # the longest name as text, if none of it is UTF-8
LARGEST = 2**63 - 1

_IMAGES = (
    "jpg jpeg jpe jfif png gif webp tif tiff bmp heic heif hif avif dng cr2 cr3 nef nrw arw srf sr2 "
    "raf orf rw2 pef srw 3fr fff iiq rwl erf dcr kdc mef mos"
)
_VIDEOS = "mp4 m4v mov qt mkv webm avi mpg mpeg mpe m2v vob mts m2ts ts 3gp 3g2 wmv asf flv f4v ogv mxf"
_KINDS = {
    f".{spelled}": kind
    for kind, endings in (("image", _IMAGES), ("video", _VIDEOS))
    for ending in endings.split()
    for spelled in (ending, ending.upper())
}
_USUAL = frozenset(ending for ending in _KINDS if len(ending) == 4)
USUAL_IMAGES = frozenset(ending for ending in _USUAL if _KINDS[ending] == "image")
# What NAS boxes and systems keep beside one's files: their own thumbnails, trash, snapshots.
_JUNK = frozenset(
    [
        "@eadir",
        "@tmp",
        "@sharebin",
        "@recycle",
        "@recently-snapshot",
        "#recycle",
        "#snapshot",
        "lost+found",
        "$recycle.bin",
        "recycler",
        "system volume information",
    ]
)
_FLAGS = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC

File = tuple[str, int, int, int]  # name as the system gives it, mtime_ns, size, inode
Device = tuple[int, int]  # device and inode
_by_name = itemgetter(0)


@dataclass(slots=True)
class Listing:
    """What is in a folder. `trouble`: why it could not be read to its end; then nothing else here counts.

    `passed`: an earlier run of the same scan has dealt with its files. Those are kept packed, as most are never looked
    at: names between slashes, and all times, sizes and inodes.
    """

    rel_path: str
    names: str = ""
    numbers: tuple[array[int], ...] = ()
    digest: bytes = b""
    is_mount: bool = False
    folders: list[str] = field(default_factory=list)
    links: int = 0
    others: int = 0
    too_long: int = 0
    trouble: str | None = None
    passed: bool = False

    @property
    def files(self) -> list[File]:
        """By name."""
        return list(zip(self.names.split("/"), *self.numbers, strict=True)) if self.numbers else []

    def pack(self, files: list[File]) -> None:
        """These are in it. The digest is of all names, times, sizes and inodes; by columns, each costs little."""
        if not files:
            return
        files.sort(key=_by_name)
        names, *numbers = zip(*files, strict=True)
        try:
            self.numbers = tuple(array("q", column) for column in numbers)
        except OverflowError:  # file systems have stranger numbers than the database
            self.numbers = tuple(array("q", map(_fit, column)) for column in numbers)
        self.names = "/".join(names)
        state = blake2b(self.names.encode("utf-8", "surrogateescape"), digest_size=16)
        for column in self.numbers:
            state.update(column)
        self.digest = state.digest()

    @property
    def count(self) -> int:
        """Of files."""
        return len(self.numbers[0]) if self.numbers else 0

    @property
    def is_empty(self) -> bool:
        """Nothing in it that a library could have."""
        return not self.numbers and not self.folders


@dataclass(slots=True)
class _Folder:
    path: str  # as the system wants it
    rel_path: str
    device: int | None  # of the folder that it is in


def kind_of(name: str) -> str | None:
    """Image or video, by the ending of a name."""
    ending = name[name.rfind(".") :]
    return _KINDS.get(ending) or _KINDS.get(ending.lower())


def key_of(rel_path: str) -> str:
    """What folders are ordered by: all keys inside a folder begin with its own."""
    return f"{rel_path}/" if rel_path else ""


def walk(root: str, after: str | None = None, avoid: Device | None = None) -> Iterator[Listing]:
    """Every folder below, the root first. `after`: the last one that is done already; `avoid`: one to leave out."""
    done = None if after is None else key_of(after)
    waiting = [_Folder(root, "", None)]
    while waiting:
        folder = waiting.pop()
        listing, identity = _read(folder)
        if avoid is not None and identity == avoid and folder.rel_path:
            continue
        listing.passed = done is not None and key_of(folder.rel_path) <= done
        inside = _inside(folder, listing, identity[0], done)
        yield listing
        waiting += inside


def identify(path: str) -> Device | None:
    """Which folder that is, by whatever name; None if there is none."""
    try:
        found = Path(path).stat()
    except OSError:
        return None
    return found.st_dev, found.st_ino


def is_inside(path: str, folder: Device | None) -> bool:
    """Is it that folder, or anywhere in it? By whatever name; not told by its path, since mounts have several."""
    whole = Path(os.path.realpath(path))
    return folder is not None and any(identify(str(one)) == folder for one in (whole, *whole.parents))


def _inside(folder: _Folder, listing: Listing, device: int, done: str | None) -> list[_Folder]:
    """The folders in it that are not done, last one first: they are taken from the end."""
    found = []
    for name in listing.folders:
        rel_path = key_of(folder.rel_path) + to_text(name)
        path = f"{folder.path}/{name}"
        if len(rel_path.encode()) > PATH_BYTES - 2 or len(os.fsencode(path)) > SYSTEM_PATH_BYTES - 257:
            listing.too_long += 1
        elif done is None or (key := key_of(rel_path)) > done or done.startswith(key):
            found.append(_Folder(path, rel_path, device))
    found.sort(key=lambda one: key_of(one.rel_path), reverse=True)
    return found


def _read(folder: _Folder) -> tuple[Listing, Device]:
    listing, identity = Listing(folder.rel_path), (0, 0)
    try:
        opened = _open(folder)
        try:
            found = os.fstat(opened)
            identity = found.st_dev, found.st_ino
            files = _list(opened, listing)
        finally:
            os.close(opened)
        if folder.device is None:
            listing.is_mount = os.path.ismount(folder.path)
        else:
            listing.is_mount = identity[0] != folder.device
    except OSError as error:
        return Listing(folder.rel_path, trouble=error.strerror or str(error)), identity
    listing.pack(_leave_out_long(folder, listing, files))
    return listing, identity


def _open(folder: _Folder) -> int:
    """A folder that became a link meanwhile is not followed; only the root may be one."""
    flags = _FLAGS | (os.O_NOFOLLOW if folder.rel_path else 0)
    try:
        return os.open(folder.path, flags | getattr(os, "O_NOATIME", 0))
    except PermissionError:  # times of access may be kept only by the owner
        return os.open(folder.path, flags)


def _list(opened: int, listing: Listing) -> list[File]:
    """The hot loop: what can be told from the entry itself is not asked of the file system."""
    files: list[File] = []
    usual, take = _USUAL, files.append
    with os.scandir(opened) as entries:
        for entry in entries:
            name = entry.name
            if name[0] == ".":
                continue
            if entry.is_file(follow_symlinks=False):
                if name[-4:] not in usual and kind_of(name) is None:
                    listing.others += 1
                    continue
                try:
                    found = entry.stat(follow_symlinks=False)
                except FileNotFoundError:
                    continue  # deleted just now
                take((name, found.st_mtime_ns, found.st_size, found.st_ino))
            elif entry.is_dir(follow_symlinks=False):
                if name.lower() not in _JUNK:
                    listing.folders.append(name)
            elif entry.is_symlink():
                listing.links += 1
            else:
                listing.others += 1
    return files


def _leave_out_long(folder: _Folder, listing: Listing, files: list[File]) -> list[File]:
    text, system = len(key_of(folder.rel_path).encode()), len(os.fsencode(folder.path))
    if text + NAME_BYTES <= PATH_BYTES and system + 256 <= SYSTEM_PATH_BYTES:
        return files
    kept = [
        file
        for file in files
        if text + len(to_text(file[0]).encode()) <= PATH_BYTES
        and system + 1 + len(os.fsencode(file[0])) <= SYSTEM_PATH_BYTES
    ]
    listing.too_long += len(files) - len(kept)
    return kept


def _fit(number: int) -> int:
    """Into a bigint; inodes that need the last bit stay different from each other."""
    if LARGEST < number < 2**64:
        return number - 2**64
    return max(-LARGEST, min(number, LARGEST))
