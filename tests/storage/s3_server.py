"""A real S3 server (SeaweedFS) for tests: one for the run, a bucket for each test; or one of its own, to be killed."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import shutil
import subprocess
import tempfile
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from uuid import uuid4

import pytest

from mediamill.errors import MediamillError
from mediamill.settings import Settings
from mediamill.storage.objects import BucketPlace, Objects
from tests.conftest import MEMORY, ROOM_BYTES
from tests.ports import free_port

FOUND = Path(__file__).parents[2] / ".tools" / "s3"
KEY_ID, SECRET = "mill", "mill-secret"
WEAK_ID, WEAK_SECRET = "reader", "reader-secret"
START_SECONDS = 120
PORTS = tuple(f"{part}.port{more}" for part in ("master", "volume", "filer", "s3") for more in ("", ".grpc"))


class S3Server:
    """Its files lie in a folder of its own; killed and started again it has what was put."""

    def __init__(self) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix="s3-", dir=_roomy_folder()))
        self._ports: dict[str, int] = {}
        self._process: subprocess.Popen[bytes] | None = None
        rights = {"mill": ["Read", "Write", "List"], "reader": ["Read", "List"]}
        keys = {"mill": (KEY_ID, SECRET), "reader": (WEAK_ID, WEAK_SECRET)}
        who = [
            {
                "name": name,
                "credentials": [{"accessKey": keys[name][0], "secretKey": keys[name][1]}],
                "actions": actions,
            }
            for name, actions in rights.items()
        ]
        (self.folder / "identities.json").write_text(json.dumps({"identities": who}))
        (self.folder / "files").mkdir()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._ports['s3.port']}"

    def start(self) -> None:
        flags = [f"-{name}={port}" for name, port in self._ports.items()]
        command = [
            os.environ.get("S3_SERVER") or FOUND.read_text().strip(),
            *(
                "server",
                f"-dir={self.folder / 'files'}",
                "-ip=127.0.0.1",
                "-ip.bind=127.0.0.1",
                "-filer",
                "-s3",
            ),
            *("-master.volumeSizeLimitMB=64", "-volume.max=0", "-s3.port.iceberg=0", "-s3.port.lance=0"),
            *("-master.telemetry=false", f"-s3.config={self.folder / 'identities.json'}", *flags),
        ]
        with (self.folder / "said.txt").open("ab") as said:
            self._process = subprocess.Popen(command, cwd=self.folder, stdout=said, stderr=said)

    def started(self) -> None:
        """Until it takes an object: its parts find each other some seconds after it listens."""
        deadline = time.monotonic() + START_SECONDS
        while self._process is None or not self._answers():
            assert time.monotonic() < deadline, (self.folder / "said.txt").read_text()[-3000:]
            if self._process is None or self._process.poll() is not None:
                self._choose_ports()  # somebody else took one of them
                self.start()
            time.sleep(0.1)

    def restarted(self) -> None:
        """After a kill, where it was."""
        self.start()
        deadline = time.monotonic() + START_SECONDS
        while not self._answers():
            assert time.monotonic() < deadline, (self.folder / "said.txt").read_text()[-3000:]
            time.sleep(0.1)

    def _choose_ports(self) -> None:
        chosen: set[int] = set()
        while len(chosen) < len(PORTS):
            chosen.add(free_port())
        self._ports = dict(zip(PORTS, chosen, strict=True))

    def _answers(self) -> bool:
        settings = self.settings(self.folder, self.make_bucket())
        try:
            asyncio.run(Objects(BucketPlace.of(settings)).examine())
        except MediamillError:
            return False
        return True

    def make_bucket(self) -> str:
        """A new one; its name. A bucket is a folder of the filer below S3."""
        name = f"mill-{uuid4().hex[:12]}"
        url = f"http://127.0.0.1:{self._ports['filer.port']}/buckets/{name}/"
        with contextlib.suppress(OSError):  # it does not answer yet
            urllib.request.urlopen(urllib.request.Request(url, method="POST"), timeout=10).close()
        return name

    def kill(self) -> None:
        """-9."""
        assert self._process is not None
        self._process.kill()
        self._process.wait()

    def close(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.wait()
        shutil.rmtree(self.folder, ignore_errors=True)

    def settings(self, data: Path, bucket: str, **more: object) -> Settings:
        """With this bucket in the place of the data folder."""
        given = {
            "bucket": bucket,
            "bucket_url": self.url,
            "bucket_key_id": KEY_ID,
            "bucket_secret": SECRET,
            "bucket_prefix": "one/two",
            **more,
        }
        return Settings.model_validate({"data": data, **given})


def _roomy_folder() -> Path:
    memory = os.access(MEMORY, os.W_OK) and shutil.disk_usage(MEMORY).free > ROOM_BYTES
    return Path(MEMORY if memory else tempfile.gettempdir())


@pytest.fixture(scope="session")
def s3_server() -> Iterator[S3Server]:
    """Shared by all tests of a process: nobody kills it."""
    server = S3Server()
    server.started()
    yield server
    server.close()


@pytest.fixture
def bucket(s3_server: S3Server) -> str:
    """An empty bucket."""
    return s3_server.make_bucket()


@pytest.fixture
def own_s3_server() -> Iterator[S3Server]:
    """For a test that kills it."""
    server = S3Server()
    server.started()
    yield server
    server.close()
