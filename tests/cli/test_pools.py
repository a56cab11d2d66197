"""`mediamill pools`: a faulty definition is refused by name, and the old one stays."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from mediamill.cli.pools import read_settings
from mediamill.errors import InvalidError
from tests.cli.conftest import Mediamill


async def _pools(mediamill: Mediamill) -> dict[str, Any]:
    return {pool["name"]: pool for pool in (await mediamill("pools", "show", "--json")).json}


@pytest.mark.spec("E16")
async def test_a_pool_is_made_changed_and_dropped(mediamill: Mediamill) -> None:
    words = ("matches=video/mp4,video/quicktime", "processor=scripted", "lease_seconds=1800", "retry=false")
    before = list(await _pools(mediamill))
    await mediamill("pools", "set", "films", *words)
    await mediamill("pools", "set", "films", "concurrency=3")
    pool = (await mediamill("pools", "show", "films", "--json")).json
    assert pool["matches"] == ["video/mp4", "video/quicktime"]
    assert (pool["processor"], pool["lease_seconds"], pool["retry"], pool["concurrency"]) == (
        "scripted",
        1800,
        False,
        3,
    )
    assert pool["timeout_seconds"] == 60
    await mediamill("jobs", "add", "scripted.inline", "--mime-type", "video/mp4")
    assert (await mediamill("jobs", "show", 1, "--json")).json["pool"] == "films"
    assert (await mediamill("pools", "drop", "films", "--yes")).code == 0
    assert list(await _pools(mediamill)) == before
    assert (await mediamill("jobs", "show", 1, "--json")).json["pool"] == "default"


@pytest.mark.spec("C24")
async def test_a_processor_may_be_named_by_its_class(mediamill: Mediamill) -> None:
    await mediamill("pools", "set", "voices", "matches=audio/ogg", "processor=AudioTranscriptionProcessor")
    assert (await mediamill("pools", "show", "voices", "--json")).json["processor"] == "audio"


@pytest.mark.spec("E16")
@pytest.mark.parametrize(
    ("words", "complaint"),
    [
        (("set", "more", "concurrency=2"), "more than one catch-all: default, more"),
        (("set", "default", "matches=a/b"), "no pool is the catch-all"),
        (("drop", "default", "--yes"), "no pool is the catch-all"),
        (("drop", "nowhere", "--yes"), "there is no pool named nowhere"),
        (
            ("set", "video", "matches=a/b", "processor=scriptd"),
            "there is no processor 'scriptd'; there are audio, corrupt",
        ),
        (("set", "video", "matches=scripted.run"), "scripted.run is matched by"),
        (("set", "default", "concurrency=0"), "concurrency must be between 1 and"),
        (("set", "default", "concurrency=many"), "concurrency must be int"),
        (("set", "default", "speed=9"), "there is no setting 'speed'"),
        (("set", "default", "retry=maybe"), "retry must be bool"),
        (("set", "default", "concurrency"), "'concurrency' is not of the form key=value"),
        (("set", "default"), "nothing to change"),
        (("set",), "name a pool"),
    ],
)
async def test_a_faulty_definition_is_refused_by_name_and_the_old_one_stays(
    mediamill: Mediamill, words: tuple[str, ...], complaint: str
) -> None:
    before = await _pools(mediamill)
    refused = await mediamill("pools", *words)
    assert (refused.code, refused.out) == (1, "")
    assert complaint in refused.err
    assert await _pools(mediamill) == before


@pytest.mark.spec("E16")
async def test_every_fault_is_named_at_once(mediamill: Mediamill) -> None:
    refused = await mediamill("pools", "set", "default", "concurrency=0", "speed=9", "retry=maybe")
    for fault in ("concurrency must be", "no setting 'speed'", "retry must be bool"):
        assert fault in refused.err


@pytest.mark.spec("E16")
async def test_what_show_prints_can_be_set_again_from_a_file(mediamill: Mediamill, tmp_path: Path) -> None:
    file = tmp_path / "pools.json"
    pools = (await mediamill("pools", "show", "--json")).json
    next(pool for pool in pools if pool["name"] == "scripted")["concurrency"] = 7
    file.write_text(json.dumps(pools))
    assert (await mediamill("pools", "set", "--file", file)).code == 0
    assert (await mediamill("pools", "show", "scripted", "--json")).json["concurrency"] == 7
    file.write_text(json.dumps([{"name": "only", "matches": []}]))
    assert (await mediamill("pools", "set", "--file", file)).code == 1
    assert (await mediamill("pools", "set", "--file", file, "--replace")).code == 0
    assert list(await _pools(mediamill)) == ["only"]


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("[", "is not JSON"),
        ("17", "must hold a JSON list"),
        ("[]", "must hold a JSON list"),
        ('[{"name": "a"}, {"name": "b"}]', "more than one catch-all"),
        ('[{"name": "a", "matches": ["x/y"]}]', "no pool is the catch-all"),
        ('[{"name": "a"}, {"name": "a"}]', "two pools are named a"),
        ('[{"matches": "x"}]', "name is missing"),
    ],
)
@pytest.mark.spec("E16")
async def test_a_faulty_file_changes_nothing(
    mediamill: Mediamill, tmp_path: Path, text: str, complaint: str
) -> None:
    before = await _pools(mediamill)
    file = tmp_path / "pools.json"
    file.write_text(text)
    refused = await mediamill("pools", "set", "--file", file, "--replace")
    assert refused.code == 1
    assert complaint in refused.err
    assert await _pools(mediamill) == before


async def test_an_unknown_pool_is_answered_with_those_there_are(mediamill: Mediamill) -> None:
    refused = await mediamill("pools", "show", "nowhere")
    assert refused.code == 1
    assert (
        "there are audio, captions, corrupt, documents, embed, image, intake, library_images, library_scans, "
        "library_tags, library_videos, scripted, stickers, transcode, unsupported, video, default"
        in refused.err
    )
    assert "nothing" not in (await mediamill("pools", "show")).out


def test_words_become_values() -> None:
    assert read_settings(["matches=a/b, c", "processor=none", "gpu=true", "timeout_seconds=1.5"]) == {
        "matches": ["a/b", "c"],
        "processor": None,
        "gpu": True,
        "timeout_seconds": 1.5,
    }
    assert read_settings(["matches="]) == read_settings(["matches=[]"]) == {"matches": []}
    with pytest.raises(InvalidError, match="concurrency is given twice"):
        read_settings(["concurrency=1", "concurrency=2"])
