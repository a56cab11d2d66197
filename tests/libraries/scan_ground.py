"""A tree of files and the library of it: files come, change and go, and scans are held against the tree."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from mediamill.db.connection import Database
from mediamill.libraries.add import add_library
from mediamill.libraries.scan import scan_library
from mediamill.libraries.scan_model import ScanCounts
from mediamill.settings import Settings
from mediamill.staging.file_names import to_text

ODD_NAMES = (
    b"caf\xc3\xa9.jpg",
    b"latin-\xe9\xff.jpg",
    b"two\nlines.jpg",
    b"-rf.jpg",
    "\u202egpj.exe.jpg".encode(),
    "\U0010ff41.jpg".encode(),
    b"%s\\'\";--.jpg",
    b"tab\there.jpg",
    b"x" * 251 + b".jpg",
    b"\xff" * 251 + b".jpg",
)

Facts = tuple[int, int, int]


@dataclass
class Tree:
    """A folder, and what a library knows of it."""

    database: Database
    settings: Settings
    root: Path
    slug: str

    @classmethod
    async def grow(cls, database: Database, tmp_path: Path, name: str = "Photos") -> Tree:
        root = tmp_path / f"{name}-root"
        root.mkdir()
        async with database.transaction() as connection:
            slug = await add_library(connection, name, str(root))
        return cls(database, Settings(data=tmp_path / "data"), root, slug)

    def write(self, *paths: str | bytes, size: int = 1) -> None:
        """Files of so many bytes."""
        for path in paths:
            whole = self.root / os.fsdecode(path)
            whole.parent.mkdir(parents=True, exist_ok=True)
            with whole.open("wb") as file:
                file.truncate(size)

    def stamp(self, path: str, mtime_ns: int) -> None:
        os.utime(self.root / path, ns=(mtime_ns, mtime_ns))

    async def scan(self, **more: Any) -> ScanCounts:
        return await scan_library(self.database, self.settings, self.slug, **more)

    async def assets(self) -> dict[str, Any]:
        """By path, as text."""
        rows = await self.database.pool.fetch(
            "select a.* from assets a join libraries l on l.number = a.library where l.slug = $1", self.slug
        )
        return {row["rel_path"]: row for row in rows}

    async def known(self) -> dict[str, Facts]:
        """What is not marked as gone."""
        rows = (await self.assets()).items()
        return {
            path: (row["mtime_ns"], row["size"], row["inode"]) for path, row in rows if not row["vanished_at"]
        }

    async def folders(self) -> dict[str, Any]:
        rows = await self.database.pool.fetch(
            "select f.* from library_folders f join libraries l on l.number = f.library where l.slug = $1",
            self.slug,
        )
        return {row["rel_path"]: row for row in rows}

    def there(self) -> dict[str, Facts]:
        """What a plain walk finds that ends in jpg or mp4."""
        found = {}
        for folder, _, names in os.walk(self.root):
            for path in (Path(folder, name) for name in names):
                if not path.is_symlink() and path.suffix in (".jpg", ".mp4"):
                    stat = path.lstat()
                    text = to_text(str(path.relative_to(self.root)))
                    found[text] = stat.st_mtime_ns, stat.st_size, stat.st_ino
        return found

    async def library(self) -> Any:
        return await self.database.pool.fetchrow("select * from libraries where slug = $1", self.slug)

    async def versions(self) -> Any:
        """Which transaction wrote each row, and where it is: any write shows."""
        rows = []
        for table in ("assets", "library_folders"):
            rows += await self.database.pool.fetch(
                f"select id, xmin::text, ctid::text from {table} order by id"
            )
        return [tuple(row) for row in rows]

    async def sql(self, statement: str, *given: Any) -> None:
        await self.database.pool.execute(statement, *given)


def counted(counts: ScanCounts) -> dict[str, int]:
    """What was other than before."""
    names = ("new", "changed", "vanished", "back", "renamed")
    return {name: getattr(counts, name) for name in names if getattr(counts, name)}
