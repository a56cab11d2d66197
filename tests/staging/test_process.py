"""Files of this machine as jobs: the same file asked for in the same way is the same job."""

from __future__ import annotations

import base64
import os
from pathlib import Path
from typing import Any

from mediamill.settings import Settings
from mediamill.staging.jobs import KINDS, PROCESS
from mediamill.staging.process import DECIDING, job_of_file, printable_name, reference_to


def key(path: Path, previews: bool = False, **settings: Any) -> str | None:
    return job_of_file(path, Settings(**settings), previews=previews).idempotency_key


def test_a_file_becomes_a_job_by_its_real_type(tmp_path: Path) -> None:
    path = tmp_path / "ä.bin"
    path.write_bytes(b"%PDF-1.4\n%%EOF\n")
    job = job_of_file(path, Settings(), previews=False)
    assert (job.kind, job.owner, job.mime_type) == ("media.process", "process", "application/pdf")
    assert job.payload == {"file": {"path": str(path)}, "original_filename": "ä.bin"}
    with_previews = job_of_file(path, Settings(), previews=True)
    assert with_previews.payload == {**job.payload, "previews": True}
    assert len(job.idempotency_key or "") == 64
    assert job_of_file(path, Settings(), previews=False, again=True).idempotency_key is None
    (kind,) = KINDS
    assert (kind.name, kind.local, bool(kind.description)) == (PROCESS, True, True)


def test_the_key_of_a_file_changes_with_all_that_decides_about_its_result(tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    path.write_text("hello")
    first = key(path)
    assert first == key(path)
    link = tmp_path / "link.txt"
    link.symlink_to(path)
    assert key(link) == first, "it is the same file"
    different = [key(path, True), key(path, speech_language="de"), key(path, document_pages=7)]
    different += [key(path, document_ocr_pages=7), key(path, speech_model="x")]
    os.utime(path, ns=(1, 1))
    different.append(key(path))
    path.write_text("hello!")
    os.utime(path, ns=(1, 1))
    different.append(key(path))
    assert len({first, *different}) == 1 + len(different)
    engines = ("speech", "vision", "video", "text", "embedding")
    assert set(DECIDING) == {
        *engines,
        *(f"{engine}_model" for engine in engines),
        *("speech_language", "document_pages", "document_ocr_pages"),
    }


def test_a_name_that_is_no_text_goes_along_as_base64() -> None:
    odd = Path(os.fsdecode(b"/tmp/\xff.jpg"))
    assert reference_to(odd) == {"path_base64": base64.b64encode(b"/tmp/\xff.jpg").decode()}
    assert printable_name(odd) == "\ufffd.jpg"
    assert reference_to(Path("/tmp/ä.jpg")) == {"path": "/tmp/ä.jpg"}
    assert reference_to(Path("a.jpg")) == {"path": str(Path.cwd() / "a.jpg")}
