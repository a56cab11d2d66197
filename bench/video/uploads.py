"""A large file by tus into a real server on this machine, beside a plain copy to the same disk and a bare socket.

The bare socket is the least that any server must do: another process takes the bytes and writes them, nothing else.
"""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from functools import partial
from itertools import permutations
from pathlib import Path
from statistics import median
from typing import Any

import psutil

from bench.serving import forget_peak, free_port, memory_of, serving
from mediamill.client import Client

HEAD = b"\0\0\0\x18ftypmp42\0\0\0\0mp42isom"  # enough to be taken for a video
PIECE = 1 << 20
SECRET = "known to the benchmark alone"
SETTLE_SECONDS = 2.0
REST_SECONDS = 3.0


@dataclass
class Figures:
    """Of every round."""

    speeds: dict[str, list[float]] = field(default_factory=lambda: {"copy": [], "socket": [], "upload": []})
    server_cpu: list[float] = field(default_factory=list)
    client_cpu: list[float] = field(default_factory=list)

    def ratio(self, way: str) -> float:
        """Of the upload to another way, in the same round."""
        pairs = zip(self.speeds["upload"], self.speeds[way], strict=True)
        return round(median(upload / other for upload, other in pairs), 2)


def measure_upload(folder: Path, size_bytes: int, rounds: int) -> dict[str, Any]:
    """By turns, in another order each round; every file is on the disk (fsync) when its time ends."""
    source = make_file(folder / "film.mp4", size_bytes)
    small = make_file(folder / "small.mp4", 8 * PIECE)
    port, figures = free_port(), Figures()
    with _serving(folder / "data", port) as server, Client(f"http://127.0.0.1:{port}", SECRET) as client:
        client.upload_video(small)  # everything is imported and connected
        time.sleep(SETTLE_SECONDS)
        before = forget_peak(server)
        for number in range(rounds):
            named = folder / f"film-{number}.mp4"  # another name is another upload
            source = source.rename(named)
            ways: list[tuple[str, Callable[[], float]]] = [
                ("copy", partial(_copy, source, folder / "copy")),
                ("socket", partial(_send, source, folder / "sent")),
                ("upload", partial(_upload, client, source, server, figures)),
            ]
            orders = list(permutations(ways))  # each comes behind each other one as often
            for way, take in orders[number % len(orders)]:
                _rest()
                figures.speeds[way].append(size_bytes / 1e6 / take())
        peak = memory_of(server, "VmHWM")
    return {
        "file_mb": round(size_bytes / 1e6),
        **{f"{way}_mb_s": _rounded(speeds) for way, speeds in figures.speeds.items()},
        "rounds_mb_s": {way: [round(speed) for speed in speeds] for way, speeds in figures.speeds.items()},
        "vs_copy": figures.ratio("copy"),
        "vs_socket": figures.ratio("socket"),
        "server_cpu_seconds": round(median(figures.server_cpu), 2),
        "client_cpu_seconds": round(median(figures.client_cpu), 2),
        "server_before_mb": round(before / 1e6, 1),
        "server_added_mb": round((peak - before) / 1e6, 1),
    }


def _rest() -> None:
    """What the one before left behind is not the next one's; and a disk that is fast only for a while rests."""
    os.sync()
    time.sleep(REST_SECONDS)


def _upload(client: Client, source: Path, server: psutil.Process, figures: Figures) -> float:
    """Seconds."""
    ours = psutil.Process()
    spent, own, began = _cpu(server), _cpu(ours), time.perf_counter()
    client.upload_video(source)
    seconds = time.perf_counter() - began
    figures.server_cpu.append(_cpu(server) - spent)
    figures.client_cpu.append(_cpu(ours) - own)
    return seconds


def _cpu(process: psutil.Process) -> float:
    return float(sum(process.cpu_times()[:2]))


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


def _serving(data: Path, port: int) -> AbstractContextManager[psutil.Process]:
    environment = {
        **os.environ,
        "MEDIAMILL_DATA": str(data),
        "MEDIAMILL_PORT": str(port),
        "MEDIAMILL_LOG_LEVEL": "ERROR",
        "MEDIAMILL_ADMIN_SECRET": SECRET,
    }
    environment.pop("MEDIAMILL_DATABASE_URL", None)
    command = [sys.executable, "-m", "mediamill", "up", "--workers", "0"]
    return serving(command, environment, port)


def _rounded(figures: list[float]) -> dict[str, float]:
    return {"median": round(median(figures)), "lowest": round(min(figures)), "highest": round(max(figures))}
