"""A large file by tus into a real server on this machine, beside a plain copy to the same disk and a bare socket.

The bare socket is the least that any server must do: another process takes the bytes and writes them, nothing else.
"""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from statistics import median
from typing import Any

import psutil

from mediamill.client import Client

HEAD = b"\0\0\0\x18ftypmp42\0\0\0\0mp42isom"  # enough to be taken for a video
PIECE = 1 << 20
START_SECONDS = 120.0
SETTLE_SECONDS = 2.0


def measure_upload(folder: Path, size_bytes: int, rounds: int) -> dict[str, Any]:
    """By turns; every file is on the disk (fsync) when its time ends."""
    source = make_file(folder / "film.mp4", size_bytes)
    small = make_file(folder / "small.mp4", 8 * PIECE)
    port = _free_port()
    copies, sockets, uploads, cpu = list[float](), list[float](), list[float](), list[float]()
    with _serving(folder / "data", port) as server, Client(f"http://127.0.0.1:{port}") as client:
        client.upload_video(small)  # everything is imported and connected
        time.sleep(SETTLE_SECONDS)
        before = _forget_peak(server)
        for number in range(rounds):
            copies.append(size_bytes / 1e6 / _copy(source, folder / "copy"))
            sockets.append(size_bytes / 1e6 / _send(source, folder / "sent"))
            named = folder / f"film-{number}.mp4"  # another name is another upload
            source.rename(named)
            source = named
            spent, began = sum(server.cpu_times()[:2]), time.perf_counter()
            client.upload_video(source)
            uploads.append(size_bytes / 1e6 / (time.perf_counter() - began))
            cpu.append(sum(server.cpu_times()[:2]) - spent)
        peak = _status(server, "VmHWM")
    return {
        "file_mb": round(size_bytes / 1e6),
        "upload_mb_s": _rounded(uploads),
        "copy_mb_s": _rounded(copies),
        "socket_mb_s": _rounded(sockets),
        "vs_copy": round(median(up / copy for up, copy in zip(uploads, copies, strict=True)), 2),
        "vs_socket": round(median(up / sent for up, sent in zip(uploads, sockets, strict=True)), 2),
        "server_cpu_seconds": round(median(cpu), 2),
        "server_before_mb": round(before / 1e6, 1),
        "server_added_mb": round((peak - before) / 1e6, 1),
    }


def make_file(path: Path, size_bytes: int) -> Path:
    """Bytes that no disk can squeeze."""
    piece = os.urandom(PIECE)
    with path.open("wb") as file:
        file.write(HEAD)
        left = size_bytes - len(HEAD)
        while left > 0:
            left -= file.write(piece[:left])
        os.fsync(file.fileno())
    return path


def _copy(source: Path, target: Path) -> float:
    """As cp does it, and then to the disk. Seconds."""
    began = time.perf_counter()
    with source.open("rb") as reader, target.open("wb") as writer:
        while piece := reader.read(PIECE):
            writer.write(piece)
        writer.flush()
        os.fsync(writer.fileno())
    seconds = time.perf_counter() - began
    target.unlink()
    return seconds


RECEIVER = """
import os, socket, sys
door = socket.create_server(("127.0.0.1", 0))
print(door.getsockname()[1], flush=True)
line, _ = door.accept()
piece = memoryview(bytearray(1 << 20))
with open(sys.argv[1], "wb", buffering=0) as file:
    while got := line.recv_into(piece):
        file.write(piece[:got])
    os.fsync(file.fileno())
line.sendall(b"x")
"""


def _send(source: Path, target: Path) -> float:
    """Through a bare socket into another process that writes it to the disk. Seconds."""
    command = [sys.executable, "-c", RECEIVER, str(target)]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        port = int(process.stdout.readline())
        began = time.perf_counter()
        with socket.create_connection(("127.0.0.1", port)) as line, source.open("rb") as reader:
            while piece := reader.read(PIECE):
                line.sendall(piece)
            line.shutdown(socket.SHUT_WR)
            line.recv(1)
        seconds = time.perf_counter() - began
    target.unlink()
    return seconds


@contextmanager
def _serving(data: Path, port: int) -> Iterator[psutil.Process]:
    environment = {
        **os.environ,
        "MEDIAMILL_DATA": str(data),
        "MEDIAMILL_PORT": str(port),
        "MEDIAMILL_LOG_LEVEL": "ERROR",
    }
    environment.pop("MEDIAMILL_DATABASE_URL", None)
    command = [sys.executable, "-m", "mediamill", "up", "--workers", "0"]
    with subprocess.Popen(command, env=environment, stdout=subprocess.DEVNULL) as process:
        try:
            _await_port(port, process)
            yield psutil.Process(process.pid)
        finally:
            process.terminate()


def _await_port(port: int, process: subprocess.Popen[bytes]) -> None:
    deadline = time.monotonic() + START_SECONDS
    while time.monotonic() < deadline and process.poll() is None:
        with socket.socket() as probe:
            if probe.connect_ex(("127.0.0.1", port)) == 0:
                return
        time.sleep(0.1)
    raise RuntimeError("the server did not start")


def _free_port() -> int:
    with socket.socket() as door:
        door.bind(("127.0.0.1", 0))
        return int(door.getsockname()[1])


def _forget_peak(process: psutil.Process) -> int:
    """Begin to measure the peak anew; the memory in use now."""
    Path(f"/proc/{process.pid}/clear_refs").write_text("5")
    return _status(process, "VmRSS")


def _status(process: psutil.Process, name: str) -> int:
    status = Path(f"/proc/{process.pid}/status").read_text()
    return int(status.partition(f"{name}:")[2].split()[0]) * 1024


def _rounded(figures: list[float]) -> dict[str, float]:
    return {"median": round(median(figures)), "lowest": round(min(figures)), "highest": round(max(figures))}
