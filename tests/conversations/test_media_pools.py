"""The document of media processors, applied to the pools and read off them."""

from __future__ import annotations

from typing import Any

import pytest

from mediamill.conversations import configuration
from mediamill.conversations.configuration import BadValueError, UnknownNameError, get_value, set_value
from mediamill.conversations.media_pools import (
    NAME,
    BadDefinitionsError,
    apply_definitions,
    default_definitions,
    read_definitions,
)
from mediamill.db.connection import Connection, Database
from mediamill.engine.pools import Pool, list_pools, set_pools

AUDIO = "AudioTranscriptionProcessor"


def define(types: list[Any], processor: str = AUDIO, at_once: Any = 2, **more: Any) -> dict[str, Any]:
    return {
        "mimeTypes": types,
        "processorClass": processor,
        "concurrentProcessingPoolSize": at_once,
        **more,
    }


CATCH_ALL = define([], "UnsupportedMediaProcessor")


async def pools(connection: Connection) -> dict[str, Pool]:
    return {pool.name: pool for pool in await list_pools(connection)}


def in_order(document: list[dict[str, Any]]) -> list[str]:
    return sorted(str({**each, "mimeTypes": sorted(each["mimeTypes"])}) for each in document)


async def test_a_new_installation_has_the_definitions_by_default_and_none_restores_them(
    database: Database,
) -> None:
    async with database.transaction() as connection:
        assert in_order(await read_definitions(connection)) == in_order(default_definitions())
        assert (await read_definitions(connection))[-1]["mimeTypes"] == []
        before = await pools(connection)
        media = [pool for pool in before.values() if any("/" in match for match in pool.matches)]
        assert {pool.name: pool.max_attempts for pool in [*media, before["corrupt"]]} == dict.fromkeys(
            ("audio", "video", "image", "documents", "stickers", "corrupt", "unsupported"), 1
        )
        await apply_definitions(connection, default_definitions())
        assert {name: {*pool.matches} for name, pool in (await pools(connection)).items()} == {
            name: {*pool.matches} for name, pool in before.items()
        }
        await set_value(connection, NAME, [define(["audio/*"]), CATCH_ALL])
        assert len(await get_value(connection, NAME)) == 2
        await set_value(connection, NAME, None)
        assert in_order(await get_value(connection, NAME)) == in_order(default_definitions())


def test_the_default_says_what_each_kind_of_media_is_given() -> None:
    said = {
        each["processorClass"]: (
            each["mimeTypes"][:1],
            each["concurrentProcessingPoolSize"],
            each["processingTimeoutSeconds"],
        )
        for each in default_definitions()
    }
    assert said == {
        "AudioTranscriptionProcessor": (["audio/*"], 2, 300),
        "VideoDescriptionProcessor": (["video/*"], 1, 600),
        "ImageVisionProcessor": (said["ImageVisionProcessor"][0], 3, 120),
        "DocumentProcessor": (said["DocumentProcessor"][0], 2, 120),
        "StickerProcessor": (said["StickerProcessor"][0], 2, 60),
        "CorruptMediaProcessor": (["media_corrupt_image"], 1, 10),
        "UnsupportedMediaProcessor": ([], 1, 10),
    }


async def test_a_definition_changes_the_pool_of_its_types_and_keeps_what_it_does_not_say(
    database: Database,
) -> None:
    async with database.transaction() as connection:
        before = await pools(connection)
        audio = next(pool for pool in before.values() if "audio/*" in pool.matches)
        change = {"name": audio.name, "max_attempts": 9, "matches": [*audio.matches, "some.kind"]}
        await set_pools(connection, [change], [str(audio.processor)])
        document = [
            define(["audio/*", "audio/new"], at_once=7, processingTimeoutSeconds=0.5),
            *(each for each in default_definitions() if "audio/*" not in each["mimeTypes"]),
        ]
        await apply_definitions(connection, document)
        after = (await pools(connection))[audio.name]
        read = await read_definitions(connection)
    assert (after.concurrency, after.timeout_seconds, after.max_attempts) == (7, 0.5, 9)
    assert list(after.matches) == ["some.kind", "audio/*", "audio/new"]
    assert define(["audio/*", "audio/new"], at_once=7, processingTimeoutSeconds=0.5) in read


async def test_new_types_get_a_pool_that_is_named_by_their_family_or_their_processor(
    database: Database,
) -> None:
    async with database.transaction() as connection:
        before = await pools(connection)
        audio = next(pool for pool in before.values() if "audio/*" in pool.matches)
        await set_pools(connection, [{"name": audio.name, "max_attempts": 9}], [str(audio.processor)])
        document = [
            *default_definitions(),
            define(["font/a"]),
            define(["font/b"], "StubAudioProcessor", 3),
            define(["model/a", "chemical/b"], "StubAudioProcessor"),
        ]
        await apply_definitions(connection, document)
        new = {name: pool for name, pool in (await pools(connection)).items() if name not in before}
    assert {name: set(pool.matches) for name, pool in new.items()} == {
        "font": {"font/a"},
        "font-2": {"font/b"},
        "stub-audio": {"model/a", "chemical/b"},
    }
    assert (new["font"].max_attempts, new["font"].processor, new["font"].timeout_seconds) == (9, "audio", 60)
    assert (new["font-2"].max_attempts, new["font-2"].memory_bytes) == (1, 2 * 1024**3)
    assert (new["font-2"].concurrency, new["font-2"].processor) == (3, "stub-audio")


async def test_a_pool_that_no_definition_names_goes_unless_it_serves_kinds_of_jobs(
    database: Database,
) -> None:
    async with database.transaction() as connection:
        before = await pools(connection)
        video = next(pool for pool in before.values() if "video/*" in pool.matches)
        change = {"name": video.name, "matches": [*video.matches, "some.kind"]}
        await set_pools(connection, [change], [str(video.processor)])
        await apply_definitions(connection, [define(["audio/*"]), CATCH_ALL])
        after = await pools(connection)
    kept = next(pool for pool in after.values() if "some.kind" in pool.matches)
    assert [match for match in kept.matches if match in video.matches and "/" in match] == []
    media = [pool for pool in after.values() if any("/" in match for match in pool.matches)]
    assert sorted(match for pool in media for match in pool.matches if "/" in match) == ["*/*", "audio/*"]
    assert [name for name, pool in after.items() if not pool.matches] == [
        name for name, pool in before.items() if not pool.matches
    ]


@pytest.mark.parametrize(
    ("document", "faults"),
    [
        ({}, ["the document must be a list of definitions"]),
        ([7], ["the document must be a list of definitions"]),
        ([define(["audio/*"])], ["exactly one definition must be the catch-all with mimeTypes [], not 0"]),
        (
            [CATCH_ALL, CATCH_ALL],
            ["exactly one definition must be the catch-all with mimeTypes [], not 2"],
        ),
        (
            [define(["b/c", "a/b"]), define(["a/b", "b/c"]), CATCH_ALL],
            ["a/b is named twice", "b/c is named twice"],
        ),
        ([define("audio/*"), CATCH_ALL], ["definition 1: mimeTypes must be a list, empty for the catch-all"]),  # type: ignore[arg-type]
        (
            [CATCH_ALL, define([7, "*/*", "audio", "AUDIO/x", "audio/x"])],
            [f"definition 2: {each} is no mime type" for each in ("7", "'*/*'", "'audio'", "'AUDIO/x'")],
        ),
        (
            [CATCH_ALL | {"colour": 1}],
            [
                "definition 1: there is no 'colour'; there are mimeTypes, processorClass, "
                "concurrentProcessingPoolSize, processingTimeoutSeconds"
            ],
        ),
    ],
)
async def test_every_fault_of_a_document_is_named_and_nothing_changes(
    database: Database, document: Any, faults: list[str]
) -> None:
    async with database.transaction() as connection:
        before = await pools(connection)
        with pytest.raises(BadDefinitionsError) as refused:
            await apply_definitions(connection, document)
        assert refused.value.faults == faults
        assert str(refused.value).startswith("; ".join(faults))
        assert await pools(connection) == before


@pytest.mark.parametrize("at_once", [0, 10_001, 1.5, True, None, "2"])
async def test_so_many_at_once_is_a_whole_number(database: Database, at_once: Any) -> None:
    async with database.transaction() as connection:
        with pytest.raises(BadDefinitionsError, match="must be a whole number from 1 to 10000"):
            await apply_definitions(connection, [CATCH_ALL | {"concurrentProcessingPoolSize": at_once}])
        for fine in (1, 10_000):
            await apply_definitions(connection, [CATCH_ALL | {"concurrentProcessingPoolSize": fine}])


@pytest.mark.parametrize("limit", [0, -1, 604_801, True, None, "60"])
async def test_a_time_limit_is_a_number_of_seconds_up_to_a_week(database: Database, limit: Any) -> None:
    async with database.transaction() as connection:
        with pytest.raises(BadDefinitionsError, match="must be a number of seconds up to 604800"):
            await apply_definitions(connection, [CATCH_ALL | {"processingTimeoutSeconds": limit}])
        for fine in (0.5, 604_800):
            await apply_definitions(connection, [CATCH_ALL | {"processingTimeoutSeconds": fine}])


async def test_an_unknown_processor_is_refused_and_one_that_was_removed_keeps_its_name(
    database: Database,
) -> None:
    async with database.transaction() as connection:
        with pytest.raises(BadDefinitionsError, match="definition 1: processorClass: "):
            await apply_definitions(connection, [CATCH_ALL | {"processorClass": "Unheard"}])
        with pytest.raises(BadDefinitionsError, match="definition 1: processorClass: "):
            await apply_definitions(connection, [{"mimeTypes": [], "concurrentProcessingPoolSize": 1}])
        await connection.execute("update pools set processor = 'removed' where 'audio/*' = any(matches)")
        classes = [each["processorClass"] for each in await read_definitions(connection)]
    assert "removed" in classes


@pytest.mark.parametrize("bad", [0, -1, "50", True, [], 1_000_000])
async def test_the_quota_is_25_gigabytes_until_a_number_is_set(database: Database, bad: Any) -> None:
    name = "media_storage_quota_gb"
    async with database.transaction() as connection:
        assert await configuration.quota_gb(connection) == await get_value(connection, name) == 25
        with pytest.raises(BadValueError, match="number of gigabytes above 0"):
            await set_value(connection, name, bad)
        for value in (0.5, 999_999):
            await set_value(connection, name, value)
            assert await configuration.quota_gb(connection) == await get_value(connection, name) == value
        await set_value(connection, name, None)
        assert await get_value(connection, name) == 25
        with pytest.raises(UnknownNameError, match="no configuration value colour"):
            await set_value(connection, "colour", 1)
