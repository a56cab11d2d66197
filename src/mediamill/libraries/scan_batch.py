"""What a scan has found and not yet written: many folders, one transaction, only what differs."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field

from asyncpg import Record

from mediamill.db.connection import Connection
from mediamill.libraries.scan_model import ScanCounts
from mediamill.libraries.scan_state import ScanClaim
from mediamill.libraries.store import queries
from mediamill.libraries.walk import File, Listing, key_of
from mediamill.staging.file_names import to_text

FOLDER_COLUMNS = ("id", "library", "parent", "rel_path", "digest", "is_mount")

Found = dict[str, tuple[int, File]]  # by path: the folder that it is in, and the file


@dataclass(slots=True)
class ScanBatch:
    """`compared`: folders whose files may be known, by id."""

    added: list[tuple[int, int | None, Listing]] = field(default_factory=list)
    changed: list[tuple[int, Listing]] = field(default_factory=list)
    compared: dict[int, Listing] = field(default_factory=dict)
    copied: list[tuple[int, Listing]] = field(default_factory=list)
    gone: list[int] = field(default_factory=list)
    files: int = 0

    @property
    def folders(self) -> int:
        """How many there are to write about."""
        return len(self.added) + len(self.changed) + len(self.gone)

    async def write(self, connection: Connection, claim: ScanClaim, counts: ScanCounts) -> None:
        """All of it, counted. The claim is held by the caller."""
        await self._write_folders(connection, claim.number)
        if self.gone:
            vanished = await queries.vanish_assets.run(
                connection, at=claim.started_at, ids=[], folders=self.gone
            )
            counts.vanished += vanished
        if self.compared:
            await _Comparison(connection, claim, counts).run(self.compared)
        counts.new += await _copy_assets(connection, claim.number, self.copied)

    async def _write_folders(self, connection: Connection, library: int) -> None:
        if self.gone:
            await queries.drop_folders.run(connection, ids=self.gone)
        if self.added:
            rows = [
                (id_, library, parent, one.rel_path, one.digest, one.is_mount)
                for id_, parent, one in self.added
            ]
            await connection.copy_records_to_table("library_folders", records=rows, columns=FOLDER_COLUMNS)
        if self.changed:
            await queries.change_folders.run(
                connection,
                ids=[id_ for id_, _ in self.changed],
                digests=[one.digest for _, one in self.changed],
                mounts=[one.is_mount for _, one in self.changed],
            )


class _Comparison:
    """The files of changed folders beside their rows."""

    def __init__(self, connection: Connection, claim: ScanClaim, counts: ScanCounts) -> None:
        self._connection, self._claim, self._counts = connection, claim, counts
        self._changed: list[tuple[int, ...]] = []
        self._kept: list[tuple[int, ...]] = []
        self._vanished: list[int] = []

    async def run(self, compared: dict[int, Listing]) -> None:
        found = _by_path(compared)
        rows = await queries.assets_in_folders.rows(self._connection, folders=list(compared))
        self._compare(found, rows, vanish=True)
        if found:  # also rows of folders that were away: those may be of an older id
            paths = list(found)
            rows = await queries.assets_by_path.rows(
                self._connection, library=self._claim.number, paths=paths
            )
            self._compare(found, rows, vanish=False)
        await self._write()
        await self._add(found, compared)

    def _compare(self, found: Found, rows: list[Record], *, vanish: bool) -> None:
        for row in rows:
            there = found.pop(row["rel_path"], None)
            if there is None:
                if vanish and not row["vanished"]:
                    self._vanished.append(row["id"])
                continue
            folder, (_, mtime_ns, size, inode) = there
            if (row["mtime_ns"], row["size"]) != (mtime_ns, size):
                self._changed.append((row["id"], folder, mtime_ns, size, inode))
                self._counts.changed += 1
            elif row["vanished"] or (row["inode"], row["folder"]) != (inode, folder):
                self._kept.append((row["id"], folder, inode))
                self._counts.add("back" if row["vanished"] else "unchanged", 1)
            else:
                self._counts.unchanged += 1

    async def _write(self) -> None:
        connection = self._connection
        if self._changed:
            names = ("ids", "folders", "mtimes", "sizes", "inodes")
            columns = dict(zip(names, zip(*self._changed, strict=True), strict=True))
            await queries.change_assets.run(connection, **columns)
        if self._kept:
            columns = dict(zip(("ids", "folders", "inodes"), zip(*self._kept, strict=True), strict=True))
            await queries.keep_assets.run(connection, **columns)
        if self._vanished:
            self._counts.vanished += await queries.vanish_assets.run(
                connection, at=self._claim.started_at, ids=self._vanished, folders=[]
            )

    async def _add(self, found: Found, compared: dict[int, Listing]) -> None:
        files: dict[int, list[File]] = defaultdict(list)
        for folder, file in found.values():
            files[folder].append(file)
        new = [(folder, Listing(compared[folder].rel_path)) for folder in files]
        for folder, listing in new:
            listing.pack(files[folder])
        self._counts.new += await _copy_assets(self._connection, self._claim.number, new)


async def _copy_assets(connection: Connection, library: int, found: Sequence[tuple[int, Listing]]) -> int:
    from mediamill.libraries.asset_rows import copy_assets  # with numpy: only whoever scans needs it

    return await copy_assets(connection, library, found)


def _by_path(compared: dict[int, Listing]) -> Found:
    return {
        key_of(listing.rel_path) + to_text(file[0]): (folder, file)
        for folder, listing in compared.items()
        for file in listing.files
    }
