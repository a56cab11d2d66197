"""Everything that a player reads of a video."""

from __future__ import annotations

from typing import Any

import httpx

from mediamill.media.hls import MASTER


async def whole_stream(client: httpx.AsyncClient, video: dict[str, Any]) -> dict[str, bytes]:
    """Everything that a player would read, by name."""
    base, files = f"/api/videos/{video['id']}/files/{video['output']}", {}

    async def get(name: str) -> bytes:
        answer = await client.get(f"{base}/{name}")
        assert answer.status_code == 200, (name, answer.text)
        files[name] = answer.content
        return answer.content

    master = (await get(MASTER)).decode()
    for name in _named(master):
        for part in _named((await get(name)).decode()):
            await get(part)
    return files


def _named(playlist: str) -> list[str]:
    """The files that a playlist names."""
    lines = playlist.splitlines()
    uris = [line.split('URI="')[1].split('"')[0] for line in lines if 'URI="' in line]
    return uris + [line for line in lines if line and not line.startswith("#")]
