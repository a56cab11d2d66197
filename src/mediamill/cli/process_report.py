"""What `mediamill process` shows and writes: bars while files are worked on, then each file's text, in order."""

from __future__ import annotations

import contextlib
import json as json_module
import shutil
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Any

from mediamill.cli.terminal import clean, console, plural, print_line, say, size, span, warn
from mediamill.engine.watch import show_job

MOST_BARS = 8
SHOWN_CHARACTERS = 2_000
GENERIC_NOTICE = "[This media could not be processed]"


@dataclass(slots=True)
class FileReport:
    """One file's end."""

    job_id: int
    mime_type: str
    status: str
    text: str
    seconds: float
    error: str | None = None
    claimed_mime_type: str | None = None
    tags: list[dict[str, Any]] = field(default_factory=list)
    models: list[str] = field(default_factory=list)
    facts: dict[str, Any] = field(default_factory=dict)
    files: dict[str, dict[str, Any]] = field(default_factory=dict)


async def read_report(connection: Any, job_id: int) -> FileReport:
    """What became of a job."""
    job = await show_job(connection, job_id)
    ended, result = job.get("finished_at") or job.get("failed_at"), job.get("result") or {}
    seconds = (ended - job["started_at"]).total_seconds() if ended and job.get("started_at") else 0.0
    if job["state"] == "dead":
        text = job["notice"] or GENERIC_NOTICE
        return FileReport(job_id, job["mime_type"] or "", "failed", text, seconds, job["error"])
    return FileReport(
        job_id,
        result.get("mime_type") or job["mime_type"] or "",
        "completed",
        result.get("content", ""),
        seconds,
        claimed_mime_type=result.get("claimed_mime_type"),
        tags=result.get("tags", []),
        models=result.get("models", []),
        facts=result.get("facts", {}),
        files=result.get("files", {}),
    )


class Report:
    """Files are told in the order in which they were given, each as soon as those before it are done."""

    def __init__(
        self,
        files: Sequence[tuple[Path, Path]],
        ids: Sequence[int],
        out: Path | None,
        data_folder: Path,
        *,
        json: bool,
    ) -> None:
        self._files, self._ids, self._out, self._data, self._json = files, ids, out, data_folder, json
        self._ended: dict[int, FileReport] = {}
        self._told = 0
        self._written: set[Path] = set()
        self._began = time.monotonic()
        self._bars = _Bars(len(files), hidden=json)
        self.failed = 0

    def __enter__(self) -> Report:
        self._bars.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._bars.stop()
        done = self._told
        if kind is not None and done < len(self._files):
            warn(f"stopped after {done} of {len(self._files)}; the same command goes on where it was")
        elif kind is None and not self._json:
            self._sum_up()

    def tell(self, progress: Mapping[int, Mapping[str, Any]]) -> None:
        """How far the running ones are."""
        names = {id_: str(name) for id_, (_, name) in zip(self._ids, self._files, strict=True)}
        self._bars.show(
            [(names[id_], row) for id_, row in progress.items() if row["state"] == "running"], self._told
        )

    def end(self, ended: FileReport) -> None:
        """One has ended; tell all that can be told now."""
        self._ended[ended.job_id] = ended
        while self._told < len(self._files) and self._ids[self._told] in self._ended:
            (path, name), report = self._files[self._told], self._ended[self._ids[self._told]]
            self.failed += report.status == "failed"
            self._told += 1
            if self._out is not None:
                self._write(name, report)
            if self._json:
                print_line(as_json(path, report))
            else:
                with self._bars.aside():
                    _show(path, report)

    def _write(self, name: Path, report: FileReport) -> None:
        """The text, all facts, and the derivatives, into a folder named after the file."""
        assert self._out is not None
        folder = self._free(self._out / name)
        folder.mkdir(parents=True, exist_ok=True)
        for derivative, kept in report.files.items():
            with contextlib.suppress(FileNotFoundError):  # swept after its time; the text is still there
                shutil.copyfile(self._data / kept["path"], folder / derivative)
        if not (folder / "text.txt").exists() or "text.txt" not in report.files:
            (folder / "text.txt").write_text(report.text + "\n", encoding="utf-8", errors="replace")
        facts = {key: value for key, value in asdict(report).items() if key not in ("job_id", "files")}
        (folder / "result.json").write_text(json_module.dumps(facts, indent=2, ensure_ascii=False) + "\n")

    def _free(self, wanted: Path) -> Path:
        """Two files of one name given in one go do not share a folder."""
        path, number = wanted, 2
        while path in self._written:
            path, number = wanted.with_name(f"{wanted.name} ({number})"), number + 1
        self._written.add(path)
        return path

    def _sum_up(self) -> None:
        done = self._told - self.failed
        parts = [f"{done} done"] + ([f"{self.failed} failed"] if self.failed else [])
        where = f", written to {self._out}" if self._out is not None else ""
        took = span(time.monotonic() - self._began)
        say(
            f"{plural(self._told, 'file')}: {', '.join(parts)} in {took}{where}",
            style="yellow" if self.failed else "green",
        )


class _Bars:
    """One bar for all files, and one for each that is being worked on. Only on a terminal."""

    def __init__(self, total: int, *, hidden: bool) -> None:
        from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

        self._screen = console(stderr=True)
        columns = (TextColumn("{task.description}"), BarColumn(24), TextColumn("{task.fields[step]}"))
        self._progress = Progress(
            *columns,
            TimeElapsedColumn(),
            console=self._screen,
            transient=True,
            disable=hidden or not self._screen.is_terminal,
        )
        self._all = self._progress.add_task("files", total=total, step=f"0 of {total}")
        self._total = total
        self._tasks: dict[str, Any] = {}

    def start(self) -> None:
        self._progress.start()

    def stop(self) -> None:
        self._progress.stop()

    def show(self, running: Sequence[tuple[str, Mapping[str, Any]]], done: int) -> None:
        self._progress.update(self._all, completed=done, step=f"{done} of {self._total}")
        shown = dict(running[:MOST_BARS])
        for name in [name for name in self._tasks if name not in shown]:
            self._progress.remove_task(self._tasks.pop(name))
        for name, row in shown.items():
            if name not in self._tasks:
                self._tasks[name] = self._progress.add_task(_short(name), total=None, step="")
            percent = row["percent"]
            self._progress.update(
                self._tasks[name],
                total=None if percent is None else 100,
                completed=percent or 0,
                step=clean(row["step"] or ""),
            )

    @contextlib.contextmanager
    def aside(self) -> Iterator[None]:
        """Room for text that stays, between two drawings of the bars."""
        self._progress.stop()
        yield
        if not self._progress.disable:
            self._progress.start()


def as_json(path: Path, report: FileReport) -> dict[str, Any]:
    """One file's end, for scripts."""
    return {
        "file": str(path).encode("utf-8", "surrogateescape").decode("utf-8", "replace"),
        "mime_type": report.mime_type,
        "status": report.status,
        "text": report.text,
        "tags": [{"label": tag["label"], "score": round(tag["score"], 4)} for tag in report.tags],
        "models": report.models,
        "seconds": round(report.seconds, 3),
        "error": report.error,
    }


def _show(path: Path, report: FileReport) -> None:
    from rich.padding import Padding
    from rich.text import Text

    screen = console()
    claimed = f", claimed as {report.claimed_mime_type}" if report.claimed_mime_type else ""
    name = clean(str(path).encode("utf-8", "surrogateescape").decode("utf-8", "replace"))
    about = f"  {report.mime_type}{claimed}, {size(path.stat().st_size) if path.exists() else 'gone'}"
    screen.print(Text.assemble((name, "bold"), (f"{about}, {span(report.seconds)}", "dim")), soft_wrap=True)
    if report.error is not None:
        screen.print(Text(f"  failed: {clean(report.error)}", style="red"), soft_wrap=True)
    else:
        text = report.text.strip()
        more = len(text) - SHOWN_CHARACTERS
        shown = (
            text if more <= 0 else f"{text[:SHOWN_CHARACTERS]} … ({more} more characters; --out writes all)"
        )
        for line in shown.splitlines():
            # On a terminal, wrapped lines are indented too.
            indented = Padding(clean(line) or " ", (0, 0, 0, 2), expand=False)
            screen.print(
                indented if screen.is_terminal else f"  {clean(line)}", soft_wrap=not screen.is_terminal
            )
    screen.print()


def _short(name: str, most: int = 32) -> str:
    shown = clean(name)
    return shown if len(shown) <= most else "…" + shown[1 - most :]
