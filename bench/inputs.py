"""Measure messages with images: ten of 50 MiB at once, what they add to the server, beside FastAPI with pydantic.

python -m bench.inputs
python -m bench.inputs --quick
"""

from __future__ import annotations

import argparse
import base64
import contextlib
import http.client
import json
import os
import shutil
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import psutil

from bench.machine import describe_machine
from bench.serving import forget_peak, free_port, memory_of, serving
from mediamill.db.embedded import postmaster_pid
from mediamill.inputs.draft import MessageDraft
from mediamill.inputs.read_message import JsonMessageReader
from mediamill.inputs.spool import Spool

RESULTS = Path(__file__).parent / "results"
MEGABYTE = 1024**2
AT_ONCE = 10
SECRET = "known to the benchmark alone"
LIMIT_MB = 100
JPEG = b"\xff\xd8\xff\xe0"
BORDER = "----border"
SETTLE_SECONDS = 2.0


def main() -> int:
    """Measure, print, write; 1 if the limit was not kept."""
    parser = argparse.ArgumentParser(prog="python -m bench.inputs", description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="smaller images, to see that everything works")
    options = parser.parse_args()
    machine = describe_machine()
    print(f"load before the run: {machine['load_before']} on {machine['cores']} cores", flush=True)
    folder = Path(tempfile.mkdtemp(prefix="mediamill-bench-"))
    try:
        bodies = make_bodies(folder, 5 * MEGABYTE if not options.quick else MEGABYTE // 2)
        reading = measure_reading(folder, bodies["10 images"][0])
        rows = [*measure_ours(folder, bodies), *measure_peer(folder, bodies)]
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    _print_table(reading, rows)
    told = {
        "date": datetime.now(UTC).date().isoformat(),
        "machine": machine,
        "reader_mb_s": reading,
        "rows": rows,
    }
    name = "inputs-quick.json" if options.quick else "inputs.json"
    (RESULTS / name).write_text(json.dumps(told, indent=2) + "\n")
    return int(any(row["server"] == "mediamill" and row["added_mb"] > LIMIT_MB for row in rows))


Bodies = dict[str, tuple[Path, str]]  # a file and its type, by name


def make_bodies(folder: Path, image_bytes: int) -> Bodies:
    """The same amount of bytes as ten images and as one, in JSON and as a form."""
    many = [JPEG + os.urandom(image_bytes - len(JPEG)) for _ in range(10)]
    one = [JPEG + os.urandom(10 * image_bytes - len(JPEG))]
    form = f"multipart/form-data; boundary={BORDER}"
    found: Bodies = {
        "small": (folder / "small.json", "application/json"),
        "10 images": (folder / "many.json", "application/json"),
        "1 image": (folder / "one.json", "application/json"),
        "10 images, form": (folder / "many.form", form),
    }
    found["small"][0].write_bytes(_json_of([JPEG + bytes(100_000)]))
    found["10 images"][0].write_bytes(_json_of(many))
    found["1 image"][0].write_bytes(_json_of(one))
    found["10 images, form"][0].write_bytes(_form_of(many))
    return found


def _json_of(images: list[bytes]) -> bytes:
    listed = [
        {"mime_type": "image/jpeg", "data_base64": base64.b64encode(image).decode()} for image in images
    ]
    return json.dumps({"thread_key": "bench", "text": "look", "images": listed}).encode()


def _form_of(images: list[bytes]) -> bytes:
    head = f"--{BORDER}\r\nContent-Disposition: form-data; name="
    parts = [
        f'{head}"{name}"\r\n\r\n{value}\r\n'.encode() for name, value in (("thread_key", "b"), ("text", "x"))
    ]
    file = f'{head}"images"; filename="a.jpg"\r\nContent-Type: image/jpeg\r\n\r\n'.encode()
    return b"".join([*parts, *(file + image + b"\r\n" for image in images), f"--{BORDER}--\r\n".encode()])


def measure_reading(folder: Path, body: Path) -> float:
    """The reader alone: megabytes of JSON in a second, decoded, hashed and on disk."""
    best = 0.0
    for _ in range(3):
        with Spool(folder / "spool").open_tray() as tray, body.open("rb") as file:
            reader = JsonMessageReader(MessageDraft(tray))
            began = time.perf_counter()
            while piece := file.read(65_536):
                reader.feed(piece)
            reader.close()
            best = max(best, body.stat().st_size / 1e6 / (time.perf_counter() - began))
    return round(best)


def measure_ours(folder: Path, bodies: Bodies) -> list[dict[str, Any]]:
    """`mediamill up` with its embedded PostgreSQL. What it does with the messages afterwards counts, too."""
    port = free_port()
    environment = {
        **os.environ,
        "MEDIAMILL_DATA": str(folder / "data"),
        "MEDIAMILL_PORT": str(port),
        "MEDIAMILL_LOG_LEVEL": "ERROR",
        "MEDIAMILL_ADMIN_SECRET": SECRET,
    }
    environment.pop("MEDIAMILL_DATABASE_URL", None)
    command = [sys.executable, "-m", "mediamill", "up", "--workers", "0"]
    with serving(command, environment, port) as server:
        postmaster = postmaster_pid(folder / "data")
        return [
            _measure(server, "mediamill", port, name, bodies, postmaster)
            for name in bodies
            if name != "small"
        ]


def measure_peer(folder: Path, bodies: Bodies) -> list[dict[str, Any]]:
    """A fresh process for each: what it once took, it keeps."""
    rows = []
    (folder / "peer").mkdir()
    for name in ("10 images", "1 image"):
        port = free_port()
        command = [sys.executable, "-m", "bench.inputs_peer", str(port), str(folder / "peer")]
        with serving(command, dict(os.environ), port) as server:
            rows.append(_measure(server, "FastAPI + pydantic", port, name, bodies))
    return rows


def _measure(
    server: psutil.Process, label: str, port: int, name: str, bodies: Bodies, postmaster: int | None = None
) -> dict[str, Any]:
    for _ in range(3):  # everything is imported and connected
        assert _post(port, *bodies["small"]) == 202
    time.sleep(SETTLE_SECONDS)
    before, cpu_before = forget_peak(server), sum(server.cpu_times()[:2])
    began = time.perf_counter()
    with _watching(postmaster) as database, ThreadPoolExecutor(AT_ONCE) as pool:
        statuses = list(pool.map(lambda _: _post(port, *bodies[name]), range(AT_ONCE)))
    seconds = time.perf_counter() - began
    assert statuses == [202] * AT_ONCE, statuses
    row = {
        "server": label,
        "body": name,
        "at_once": AT_ONCE,
        "body_mb": round(bodies[name][0].stat().st_size / 1e6, 1),
        "before_mb": round(before / 1e6, 1),
        "added_mb": round((memory_of(server, "VmHWM") - before) / 1e6, 1),
        "database_added_mb": None if postmaster is None else round((max(database) - database[0]) / 1e6, 1),
        "seconds": round(seconds, 4),
        "cpu_seconds": round(sum(server.cpu_times()[:2]) - cpu_before, 2),
    }
    print(json.dumps(row), flush=True)
    return row


def _post(port: int, body: Path, content_type: str) -> int:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=600, blocksize=65_536)
    headers = {"Content-Type": content_type, "Content-Length": str(body.stat().st_size)}
    headers["Authorization"] = f"Bearer {SECRET}"
    try:
        with body.open("rb") as file:
            connection.request("POST", "/v1/messages", file, headers)
            answer = connection.getresponse()
            answer.read()
            return answer.status
    finally:
        connection.close()


@contextmanager
def _watching(postmaster: int | None) -> Iterator[list[int]]:
    """PostgreSQL's memory besides its shared buffers, looked at ten times a second."""
    seen = [_private_bytes(postmaster)] if postmaster is not None else []
    ended = threading.Event()

    def look() -> None:
        while postmaster is not None and not ended.wait(0.1):
            seen.append(_private_bytes(postmaster))

    watcher = threading.Thread(target=look)
    watcher.start()
    try:
        yield seen
    finally:
        ended.set()
        watcher.join()


def _private_bytes(postmaster: int) -> int:
    total = 0
    for process in psutil.Process(postmaster).children():
        with contextlib.suppress(OSError, IndexError):  # it has just ended
            total += memory_of(process, "RssAnon")
    return total


def _print_table(reading: float, rows: list[dict[str, Any]]) -> None:
    print(f"\nthe JSON reader alone: {reading:,.0f} MB/s of body, decoded, hashed and on disk\n")
    titles = ("at once", "MB each", "MB added", "database", "seconds", "CPU s")
    print(f"{'server':<20}{'body':<18}" + "".join(f"{title:>10}" for title in titles))
    for row in rows:
        names = ("at_once", "body_mb", "added_mb", "database_added_mb", "seconds", "cpu_seconds")
        figures = "".join(f"{row[name] if row[name] is not None else '-':>10}" for name in names)
        print(f"{row['server']:<20}{row['body']:<18}{figures}")


if __name__ == "__main__":
    sys.exit(main())
