"""A model hub on this machine: HF_ENDPOINT of the tests. It serves files from folders, at one revision each."""

from __future__ import annotations

import hashlib
from pathlib import Path

from mediamill.testing.model_server import ModelServer, Reply, Seen


class HubServer(ModelServer):
    """`publish(repository, revision, folder)`, then its files can be fetched."""

    def __init__(self) -> None:
        self._folders: dict[tuple[str, str], Path] = {}
        super().__init__()

    def publish(self, repository: str, revision: str, folder: Path) -> None:
        """All files under this folder."""
        self._folders[repository, revision] = folder

    @property
    def fetched(self) -> set[str]:
        """The paths whose content was asked for."""
        return {seen.path.partition("/resolve/")[2] for seen in self.seen if "/resolve/" in seen.path}

    def answer(self, seen: Seen) -> Reply:
        """What the real one would say."""
        parts = seen.path.partition("?")[0].strip("/").split("/")
        match parts:
            case ["api", "models", owner, name, "tree", revision]:
                folder = self._folders.get((f"{owner}/{name}", revision))
                return self._tree(folder) if folder else _missing("RevisionNotFound")
            case [owner, name, "resolve", revision, *path]:
                folder = self._folders.get((f"{owner}/{name}", revision))
                file = folder / "/".join(path) if folder else None
                return self._file(file, revision) if file and file.is_file() else _missing("EntryNotFound")
        return _missing("RepoNotFound")

    def _tree(self, folder: Path) -> Reply:
        files = sorted(path for path in folder.rglob("*") if path.is_file())
        rows = [
            {
                "type": "file",
                "path": file.relative_to(folder).as_posix(),
                "size": file.stat().st_size,
                "oid": _digest(file),
            }
            for file in files
        ]
        return Reply.json(rows)

    def _file(self, file: Path, revision: str) -> Reply:
        headers = {"ETag": f'"{_digest(file)}"', "X-Repo-Commit": revision, "Accept-Ranges": "none"}
        return Reply(file.read_bytes(), headers=headers)


def _digest(file: Path) -> str:
    return hashlib.sha1(file.read_bytes(), usedforsecurity=False).hexdigest()


def _missing(code: str) -> Reply:
    return Reply.json({"error": code}, 404, {"X-Error-Code": code})
