"""Lists and calls the tools of a server by the Python client of MCP. Run by the Python that has it.

Arguments: the server's command. The calls come by stdin, as [name, arguments]. Prints what came.
"""

import asyncio
import json
import os
import sys
from typing import Any

from mcp import ClientSession, StdioServerParameters, stdio_client  # type: ignore[import-not-found,unused-ignore]


async def use(calls: list[tuple[str, dict[str, Any]]]) -> dict[str, Any]:
    program, *words = sys.argv[1:]
    server = StdioServerParameters(command=program, args=words, env=dict(os.environ))
    async with stdio_client(server) as (source, target), ClientSession(source, target) as session:
        greeting = await session.initialize()
        tools = (await session.list_tools()).tools
        answers = [await session.call_tool(name, given) for name, given in calls]
        dump = {"by_alias": True, "mode": "json", "exclude_none": True}
        return {
            "server": greeting.model_dump(**dump)["serverInfo"]["name"],
            "tools": [tool.model_dump(**dump) for tool in tools],
            "answers": [answer.model_dump(**dump) for answer in answers],
        }


print(json.dumps(asyncio.run(use(json.load(sys.stdin)))))
