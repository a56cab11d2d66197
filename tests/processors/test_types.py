"""The types that the built-in pools serve are known in one place; the pools of a new database say the same."""

from __future__ import annotations

from importlib import import_module

import pytest

from mediamill.processors import types


@pytest.mark.spec("C24")
def test_a_new_database_has_pools_for_these_types() -> None:
    pools = {name: matches for name, matches, *_ in import_module(MIGRATION).POOLS}
    assert pools["audio"] == types.AUDIO
    assert pools["video"] == types.VIDEO
    assert pools["image"] == types.IMAGE
    assert pools["stickers"] == types.STICKER
    assert set(pools["documents"]) == set(types.DOCUMENT)


MIGRATION = "mediamill.db.migrations.versions.0002_media"


@pytest.mark.parametrize(
    ("mime_type", "kind"),
    [
        ("image/webp", "image"),
        ("audio/ogg", "audio"),
        ("video/mp4", "video"),
        ("text/html", "document"),
        ("application/pdf", "document"),
        ("application/zip", "other"),
    ],
)
def test_every_type_has_a_word(mime_type: str, kind: str) -> None:
    assert types.kind_of(mime_type) == kind
    assert types.is_served(mime_type) is (kind != "other")
