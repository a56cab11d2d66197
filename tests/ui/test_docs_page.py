from __future__ import annotations

import re
import shlex

from mediamill.ui.docs import read_sections
from tests.api.serving import Served


async def test_every_route_of_the_document_is_on_the_page(served: Served) -> None:
    document = (await served.client.get("/openapi.json")).json()
    page = (await served.client.get("/docs")).text
    shown = {
        (method.lower(), path)
        for method, path in re.findall(
            r'<span class="method \w+">(\w+)</span> <code class="path">([^<]+)<', page
        )
    }
    assert shown == {(method, path) for path, methods in document["paths"].items() for method in methods}
    assert "image_total_bytes_exceeded" in page
    assert not re.search(r'(?:src|href)="(?:https?:)?//', page)


async def test_the_calls_that_it_shows_are_good_ones(served: Served) -> None:
    document = (await served.client.get("/openapi.json")).json()
    [messages] = [section for section in read_sections(document, served.url) if section.name == "messages"]
    [route] = messages.routes
    body = next(each for each in route.bodies if each.media_type == "application/json")
    words = shlex.split(body.curl.replace("\\\n", ""))
    assert words[:4] == ["curl", "-X", "POST", f"{served.url}/v1/messages"]
    answer = await served.client.post(
        "/v1/messages", content=words[words.index("-d") + 1], headers={"Content-Type": "application/json"}
    )
    assert answer.status_code == 202, answer.text
    assert answer.json()["image_count"] == 1
    names = [fact.name for fact in body.facts]
    assert names[:2] == ["thread_key", "text"]
    assert "images[].data_base64" in names
