"""MCP's own clients for Python and TypeScript talk to a real `mediamill mcp`: they list its tools and call each."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest

from mediamill.db.connection import Database
from mediamill.libraries.model import output_folder
from tests.foreign_clients.generating import HERE, foreign_python, run
from tests.search.ground import Ground

TOOLS = ["search", "describe", "fetch", "list_libraries", "list_projects", "process"]


def enumerations(schema: Any) -> list[dict[str, Any]]:
    """Wherever they are in it."""
    if isinstance(schema, list):
        return [found for each in schema for found in enumerations(each)]
    if not isinstance(schema, dict):
        return []
    return [*([schema] if "enum" in schema else []), *enumerations(list(schema.values()))]


@pytest.mark.spec("K2")
@pytest.mark.parametrize("sort", ["python", "typescript"])
async def test_the_client_of_mcp_lists_all_tools_and_calls_each(
    sort: str, new_url: str, database: Database, tmp_path: Path
) -> None:
    ground = Ground(database)
    dog = await ground.asset(await ground.library("holiday"), "dog.jpg", "a dog on a beach")
    data, inbox = tmp_path / "data", tmp_path / "inbox"
    picture = data / output_folder(dog, "7-1") / "preview.webp"
    picture.parent.mkdir(parents=True)
    picture.write_bytes(b"RIFF")
    inbox.mkdir()
    (inbox / "note.txt").write_text("The harbour is frozen.")
    calls = [
        ("search", {"query": "dog", "mode": "words", "types": ["image"]}),
        ("describe", {"reference": f"asset:{dog}"}),
        ("fetch", {"reference": f"asset:{dog}", "what": "image"}),
        ("list_libraries", {}),
        ("list_projects", {}),
        ("process", {"path": "note.txt"}),
        ("describe", {"reference": "asset:999999"}),
    ]
    programs = {
        "python": (foreign_python(), HERE / "tools_by_python.py"),
        "typescript": ("node", HERE / "tools_by_typescript.mjs"),
    }
    server = (sys.executable, "-m", "mediamill", "mcp", "--allow-files", inbox)
    settings = {"DATABASE_URL": new_url, "DATA": str(data), "PORT": "0"}
    environment = {f"MEDIAMILL_{name}": value for name, value in settings.items()}
    said = json.loads(await run(*programs[sort], *server, given=json.dumps(calls), variables=environment))
    assert (said["server"], [tool["name"] for tool in said["tools"]]) == ("mediamill", TOOLS)
    found = enumerations([tool["inputSchema"] for tool in said["tools"]])
    assert [each.get("type") for each in found] == ["string"] * 4
    *good, bad = said["answers"]
    assert [answer.get("isError") for answer in good] == [False] * len(good), good
    assert "a dog on a beach" in good[0]["content"][0]["text"]
    assert [answer["content"][0]["type"] for answer in good] == [
        "text",
        "text",
        "image",
        "text",
        "text",
        "text",
    ]
    assert "The harbour is frozen." in good[-1]["content"][0]["text"]
    assert bad["isError"] is True
    assert json.loads(bad["content"][0]["text"])["error"]["fix"].startswith("find it with the tool search")
