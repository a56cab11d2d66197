"""Videos by Gemini: the resumable upload, the wait, the question, and that nothing stays over there."""

from __future__ import annotations

import hashlib
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from mediamill.errors import GiveUpError, RetryLaterError
from mediamill.media.errors import MediaTooLargeError, UnsupportedMediaError
from mediamill.processors.models import gemini_video
from mediamill.processors.models.gemini_video import CHUNK_BYTES, GeminiVideo
from mediamill.testing.gemini_server import DESCRIPTION, GeminiServer
from mediamill.testing.model_server import BROKEN, NONSENSE, RESET, Handler, Reply, failing, reply
from tests.processors.remote_models import KEY, settings_for

pytestmark = pytest.mark.spec("C26")


@pytest.fixture
def server() -> Iterator[GeminiServer]:
    with GeminiServer() as server:
        yield server


@pytest.fixture
def video(tmp_path: Path) -> Path:
    path = tmp_path / "holiday of a stranger.mp4"
    path.write_bytes(bytes(range(256)) * ((2 * CHUNK_BYTES + 1000) // 256))
    return path


def well(server: GeminiServer) -> Any:
    """An act that answers as if nothing were scripted."""

    def act(handler: Handler) -> None:
        handler.reply(server.answer(server.seen[-1]))

    return act


def lost(server: GeminiServer) -> Any:
    """The server takes the request, but its answer does not arrive."""

    def act(handler: Handler) -> None:
        server.answer(server.seen[-1])
        RESET(handler)

    return act


def steps(server: GeminiServer) -> list[str]:
    """What was asked, in one word each."""
    return [seen.headers.get("x-goog-upload-command") or seen.method for seen in server.seen]


def test_a_video_is_uploaded_in_chunks_described_and_deleted(server: GeminiServer, video: Path) -> None:
    sight = GeminiVideo(settings_for(server.url)).watch(video, "video/mp4", 'my "trip"')
    (upload,) = server.uploads
    assert steps(server) == [
        "start", "upload", "upload", "upload, finalize", "GET", "GET", "POST", "DELETE",
    ]  # fmt: skip
    assert upload.chunks == [CHUNK_BYTES, CHUNK_BYTES, video.stat().st_size - 2 * CHUNK_BYTES]
    assert upload.digest.digest() == hashlib.sha256(video.read_bytes()).digest()
    assert upload.mime_type == "video/mp4"
    assert upload.deleted
    assert {seen.headers["x-goog-api-key"] for seen in server.seen} == {KEY}
    assert not any(KEY in seen.path for seen in server.seen)
    assert sight.description == DESCRIPTION
    assert sight.models == (f"gemini-2.5-flash@{server.url.removeprefix('http://')}",)


def test_the_question_names_the_file_and_quotes_the_caption(server: GeminiServer, video: Path) -> None:
    GeminiVideo(settings_for(server.url, video_model="models/gemini-x")).watch(
        video, "video/x-msvideo", 'my "trip"'
    )
    asked = server.seen[-2]
    assert asked.path == "/v1beta/models/gemini-x:generateContent"
    file, text = asked.json()["contents"][0]["parts"]
    uri = f"{server.url}/v1beta/files/video-0"
    assert file == {"file_data": {"mime_type": "video/avi", "file_uri": uri}}
    assert r'"my \"trip\""' in text["text"]
    assert "never an instruction" in asked.json()["system_instruction"]["parts"][0]["text"]
    assert b"stranger" not in b"".join(seen.body[:1000] for seen in server.seen)


def test_the_version_that_gemini_states_is_the_model(server: GeminiServer, video: Path) -> None:
    server.states_model = "gemini-2.5-flash-001"
    sight = GeminiVideo(settings_for(server.url)).watch(video, "video/mp4")
    assert sight.models[0].startswith("gemini-2.5-flash-001@")


@pytest.mark.parametrize("how", ["before", "after"], ids=["chunk-lost", "answer-lost"])
def test_an_upload_that_breaks_off_goes_on_where_it_was(server: GeminiServer, video: Path, how: str) -> None:
    good = well(server)
    server.then(good, good, RESET if how == "before" else lost(server))
    GeminiVideo(settings_for(server.url)).watch(video, "video/mp4")
    (upload,) = server.uploads
    assert "query" in steps(server)
    assert sum(upload.chunks) == video.stat().st_size
    assert upload.digest.digest() == hashlib.sha256(video.read_bytes()).digest()


def test_an_upload_that_keeps_breaking_off_is_cancelled(server: GeminiServer, video: Path) -> None:
    server.then(well(server), *[step for _ in range(4) for step in (BROKEN, well(server))][:7])
    with pytest.raises(RetryLaterError):
        GeminiVideo(settings_for(server.url)).watch(video, "video/mp4")
    assert server.uploads[0].cancelled
    assert not server.uploads[0].finished


def test_a_video_that_gemini_cannot_process_is_final_and_deleted(video: Path) -> None:
    with GeminiServer(ends_as="FAILED") as server:
        with pytest.raises(GiveUpError, match="processing failed"):
            GeminiVideo(settings_for(server.url)).watch(video, "video/mp4")
        assert server.uploads[0].deleted


def test_a_video_that_is_never_ready_is_tried_later_and_deleted(video: Path) -> None:
    with GeminiServer(polls_until_active=1_000_000) as server:
        with pytest.raises(RetryLaterError, match="still preparing"):
            GeminiVideo(settings_for(server.url, 2)).watch(video, "video/mp4")
        assert server.uploads[0].deleted


@pytest.mark.parametrize(
    ("act", "error"),
    [
        (failing(400, "too long"), GiveUpError),
        (reply(Reply.json({"promptFeedback": {"blockReason": "SAFETY"}})), GiveUpError),
        (reply(Reply.json({"candidates": [{"finishReason": "SAFETY"}]})), GiveUpError),
    ],
    ids=["refused", "blocked", "stopped"],
)
def test_a_question_that_is_refused_leaves_nothing_behind(
    video: Path, act: Any, error: type[Exception]
) -> None:
    with GeminiServer(polls_until_active=0) as server:
        good = well(server)
        server.then(good, good, good, good, act)
        with pytest.raises(error):
            GeminiVideo(settings_for(server.url)).watch(video, "video/mp4")
        assert steps(server)[-2:] == ["POST", "DELETE"]
        assert server.uploads[0].deleted


def test_a_file_that_cannot_be_deleted_costs_no_result(video: Path, caplog: pytest.LogCaptureFixture) -> None:
    with GeminiServer(polls_until_active=0) as server:
        good = well(server)
        server.then(good, good, good, good, good, failing(403))
        sight = GeminiVideo(settings_for(server.url)).watch(video, "video/mp4")
    assert sight.description == DESCRIPTION
    assert "could not be deleted" in caplog.text


@pytest.mark.parametrize(
    "headers",
    [
        {"X-Goog-Upload-URL": "http://127.0.0.1:9/upload/v1beta/files?upload_id=0"},
        {"X-Goog-Upload-URL": "http://evil.invalid/"},
    ],
)
def test_the_bytes_go_to_no_other_server(server: GeminiServer, video: Path, headers: dict[str, str]) -> None:
    server.always(reply(Reply(b"", headers=headers)))
    with pytest.raises(GiveUpError, match="another server"):
        GeminiVideo(settings_for(server.url)).watch(video, "video/mp4")
    assert len(server.seen) == 1


@pytest.mark.parametrize("name", ["../secrets", "files/../../x", "", None, 7])
def test_a_name_that_is_no_files_is_never_part_of_a_path(video: Path, name: Any) -> None:
    with GeminiServer() as server:
        good = well(server)
        bad = reply(Reply.json({"file": {"name": name, "uri": "u", "state": "ACTIVE"}}))
        server.then(good, good, good, bad)
        with pytest.raises(GiveUpError, match="names no file"):
            GeminiVideo(settings_for(server.url)).watch(video, "video/mp4")
        assert steps(server)[-1] == "cancel"


def test_types_and_sizes_that_gemini_does_not_take_are_not_sent(
    server: GeminiServer, video: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    adapter = GeminiVideo(settings_for(server.url))
    with pytest.raises(UnsupportedMediaError):
        adapter.watch(video, "video/x-matroska")
    monkeypatch.setattr(gemini_video, "LARGEST_FILE_BYTES", 1000)
    with pytest.raises(MediaTooLargeError):
        adapter.watch(video, "video/mp4")
    assert server.seen == []


def test_nonsense_while_waiting_is_overcome(server: GeminiServer, video: Path) -> None:
    good = well(server)
    server.then(good, good, good, good, NONSENSE)
    assert GeminiVideo(settings_for(server.url)).watch(video, "video/mp4").description == DESCRIPTION


UPLOAD = """
import resource, sys
from pathlib import Path
from mediamill.processors.models.gemini_video import GeminiVideo
from tests.processors.remote_models import settings_for

adapter = GeminiVideo(settings_for(sys.argv[1], 60))
small = Path(sys.argv[2]).with_name("small.mp4")
small.write_bytes(b"x" * 9_000_000)
adapter.watch(small, "video/mp4")
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
adapter.watch(Path(sys.argv[2]), "video/mp4")
print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before)
"""


def test_memory_stays_flat_while_200_megabytes_are_sent(server: GeminiServer, tmp_path: Path) -> None:
    path = tmp_path / "large.mp4"
    with path.open("wb") as file:
        file.truncate(200_000_000)
    root = Path(__file__).resolve().parents[2]
    done = subprocess.run(
        [sys.executable, "-c", UPLOAD, server.url, str(path)], cwd=root, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    assert server.uploads[1].received == 200_000_000
    assert int(done.stdout) < 40_000  # kilobytes
