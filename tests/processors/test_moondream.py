"""Images by a Moondream endpoint: what is sent, at either spelling of its address."""

from __future__ import annotations

import pytest

from mediamill.processors.models.moondream_vision import MoondreamVision
from mediamill.settings import Settings
from mediamill.testing.moondream_server import CAPTION, MoondreamServer
from mediamill.testing.openai_server import image_size
from tests.processors.remote_models import KEY, pixels, settings_for

pytestmark = pytest.mark.spec("C26")


@pytest.mark.parametrize("path", ["", "/", "/v1", "/v1/"])
def test_an_image_is_captioned(path: str) -> None:
    with MoondreamServer() as server:
        settings = settings_for(server.url).model_copy(update={"moondream_url": server.url + path})
        sight = MoondreamVision(settings).look(pixels(2000, 100), "a caption that stays here")
    (seen,) = server.seen
    asked = seen.json()
    assert (seen.method, seen.path) == ("POST", "/v1/caption")
    assert seen.headers["x-moondream-auth"] == KEY
    assert image_size(asked.pop("image_url")) == (1568, 78)
    assert asked == {"length": "normal", "stream": False}
    assert sight.description == CAPTION
    assert sight.models == (f"moondream@{server.url.removeprefix('http://')}",)


def test_a_server_of_ones_own_needs_no_key() -> None:
    with MoondreamServer() as server:
        MoondreamVision(Settings(moondream_url=server.url)).look(pixels())
    assert "x-moondream-auth" not in server.seen[0].headers
