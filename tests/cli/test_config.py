"""`mediamill config`: values in the database."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.cli.conftest import Mediamill


@pytest.mark.spec("C21")
async def test_a_value_is_listed_set_and_unset(mediamill: Mediamill) -> None:
    assert (await mediamill("config", "get", "media_storage_quota_gb")).json == 25
    said = await mediamill("config", "set", "media_storage_quota_gb", "50")
    assert said.out == "media_storage_quota_gb is set: 50\n"
    assert (await mediamill("config", "list", "--json")).json["media_storage_quota_gb"] == 50
    assert "media_storage_quota_gb" in (await mediamill("config", "list")).out
    unset = await mediamill("config", "unset", "media_storage_quota_gb", "--json")
    assert unset.json == {"name": "media_storage_quota_gb", "value": 25}


@pytest.mark.spec("C24")
async def test_the_definitions_go_out_to_a_file_and_come_back(mediamill: Mediamill, tmp_path: Path) -> None:
    name, file = "_mediaProcessorDefinitions", tmp_path / "definitions.json"
    document = (await mediamill("config", "get", name)).json
    for each in document:
        each["concurrentProcessingPoolSize"] = 9
    file.write_text(json.dumps(document))
    assert (await mediamill("config", "set", name, "--file", file)).code == 0
    pools = {pool["name"]: pool for pool in (await mediamill("pools", "show", "--json")).json}
    assert (pools["video"]["concurrency"], pools["default"]["concurrency"]) == (9, 4)
    assert (await mediamill("config", "unset", name)).code == 0
    pools = {pool["name"]: pool for pool in (await mediamill("pools", "show", "--json")).json}
    assert pools["video"]["concurrency"] == 1


@pytest.mark.parametrize(
    ("words", "complaint"),
    [
        (("get", "colour"), "there is no configuration value colour"),
        (("set", "colour", "red"), "there is no configuration value colour"),
        (("unset", "colour"), "there is no configuration value colour"),
        (("set", "media_storage_quota_gb", "much"), "must be a number of gigabytes"),
        (("set", "media_storage_quota_gb", "null"), "null is no value"),
        (("set", "media_storage_quota_gb"), "give a value or --file"),
        (("set", "_mediaProcessorDefinitions", "[]"), "exactly one definition must be the catch-all"),
        (("set", "_mediaProcessorDefinitions", "--file", "nowhere"), "cannot read nowhere"),
    ],
)
async def test_a_bad_value_is_refused(mediamill: Mediamill, words: tuple[str, ...], complaint: str) -> None:
    before = (await mediamill("config", "list", "--json")).json
    refused = await mediamill("config", *words)
    assert (refused.code, refused.out) == (1, "")
    assert complaint in refused.err
    assert (await mediamill("config", "list", "--json")).json == before
