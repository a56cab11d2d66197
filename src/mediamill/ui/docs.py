"""The page of the API: the OpenAPI document made readable here, without scripts from elsewhere."""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from fastapi import APIRouter, Request
from starlette.responses import HTMLResponse

from mediamill.ui.rendering import Renderer

Document = Mapping[str, Any]
Schema = Mapping[str, Any]
FIRST_TAGS = ("messages", "runs", "bots", "conversations", "chat", "jobs")
EXAMPLE_TEXT = "…"


@dataclass(frozen=True, slots=True)
class Fact:
    """A parameter, or a field of a body."""

    name: str
    kind: str
    required: bool
    description: str
    place: str = ""


@dataclass(frozen=True, slots=True)
class Body:
    """One type that a body may have."""

    media_type: str
    facts: list[Fact]
    curl: str


@dataclass(frozen=True, slots=True)
class Route:
    """One method of one path."""

    anchor: str
    method: str
    path: str
    description: str
    parameters: list[Fact]
    bodies: list[Body]
    answers: list[tuple[str, str, list[Fact]]]
    curl: str


@dataclass(slots=True)
class Section:
    """The routes of one noun."""

    name: str
    routes: list[Route] = field(default_factory=list)


def add_docs_page(router: APIRouter, renderer: Renderer) -> None:
    """The page of the API."""

    async def docs(request: Request) -> HTMLResponse:
        """Every route, how it is called, and what it answers."""
        document: Document = request.app.openapi()
        base = str(request.base_url).rstrip("/")
        return renderer.page("docs.html", info=document["info"], sections=read_sections(document, base))

    router.get("/docs")(docs)


def read_sections(document: Document, base: str) -> list[Section]:
    """The routes by their tags, what people come for first."""
    sections: dict[str, Section] = {tag: Section(tag) for tag in FIRST_TAGS}
    for path, methods in document["paths"].items():
        for method, operation in methods.items():
            tag = (operation.get("tags") or ["other"])[0]
            section = sections.setdefault(tag, Section(tag))
            section.routes.append(_Reader(document, base).route(path, method, operation))
    return [section for section in sections.values() if section.routes]


class _Reader:
    def __init__(self, document: Document, base: str) -> None:
        self._document, self._base = document, base

    def route(self, path: str, method: str, operation: Mapping[str, Any]) -> Route:
        bodies = [
            Body(kind, self._facts(_fields(content)), self._curl(path, method, kind, content))
            for kind, content in operation.get("requestBody", {}).get("content", {}).items()
        ]
        return Route(
            operation["operationId"],
            method.upper(),
            path,
            operation.get("description", operation.get("summary", "")),
            [self._parameter(each) for each in operation.get("parameters", ())],
            bodies,
            [self._answer(status, told) for status, told in sorted(operation["responses"].items())],
            "" if bodies else self._curl(path, method, None, {}),
        )

    def _parameter(self, given: Mapping[str, Any]) -> Fact:
        return Fact(
            given["name"],
            self._kind(given["schema"]),
            given.get("required", False),
            given.get("description", ""),
            given["in"],
        )

    def _answer(self, status: str, told: Mapping[str, Any]) -> tuple[str, str, list[Fact]]:
        content = told.get("content", {}).get("application/json", {})
        return status, told["description"], self._facts(content.get("schema", {}))

    def _facts(self, schema: Schema, before: str = "") -> list[Fact]:
        """The fields of an object, and those of the objects in its lists."""
        schema = self._resolve(schema)
        facts: list[Fact] = []
        for name, inner in schema.get("properties", {}).items():
            required = name in schema.get("required", ())
            facts.append(Fact(before + name, self._kind(inner), required, inner.get("description", "")))
            item = self._resolve(self._resolve(inner).get("items", {}))
            if item.get("properties") and not before:
                facts += self._facts(item, f"{name}[].")
        return facts

    def _kind(self, schema: Schema) -> str:
        """A type in words."""
        schema = self._resolve(schema)
        if "anyOf" in schema:
            return " or ".join(self._kind(each) for each in schema["anyOf"])
        if "enum" in schema:
            return ", ".join(f"`{value}`" for value in schema["enum"])
        if "const" in schema:
            return f"`{schema['const']}`"
        kinds = schema.get("type", "anything")
        words = " or ".join([kinds] if isinstance(kinds, str) else kinds)
        if "format" in schema:
            words = words.replace("string", schema["format"])
        if isinstance(items := schema.get("items"), Mapping):
            words = words.replace("array", f"list of {self._kind(items)}")
        return words + _limits(schema)

    def _resolve(self, schema: Schema) -> Schema:
        reference = schema.get("$ref")
        if reference is None:
            return schema
        found: Schema = self._document["components"]["schemas"][reference.rpartition("/")[2]]
        return found

    def _curl(self, path: str, method: str, media_type: str | None, content: Mapping[str, Any]) -> str:
        words = ["curl"]
        if method != "get":
            words += ["-X", method.upper()]
        # Braces would mean something to curl.
        address = re.sub(r"\{(\w+)\}", lambda found: found[1].upper(), path)
        lines = [shlex.join([*words, self._base + address])]
        lines += ['-H "Authorization: Bearer $TOKEN"'] if path != "/health" else []
        match media_type:
            case "application/json":
                lines += [f"-H {shlex.quote('Content-Type: application/json')}"]
                lines += [f"-d {shlex.quote(json.dumps(self._example(content), ensure_ascii=False))}"]
            case "multipart/form-data":
                schema = _fields(content)
                lines += [f"-F {name}={shlex.quote(EXAMPLE_TEXT)}" for name in schema.get("required", ())]
                files = [name for name, each in schema["properties"].items() if "items" in each]
                lines += [f"-F {name}=@photo.jpg" for name in files]
            case str():
                lines += ["--data-binary @photo.jpg"]
        return " \\\n  ".join(lines)

    def _example(self, content: Mapping[str, Any]) -> Any:
        given = list(content.get("examples", {}).values())
        return given[-1]["value"] if given else self._made_up(content["schema"])

    def _made_up(self, schema: Schema) -> Any:
        """What must be there, with values that show their type."""
        schema = self._resolve(schema)
        if "default" in schema and schema["default"] is not None:
            return schema["default"]
        if "enum" in schema:
            return schema["enum"][0]
        match schema.get("type"):
            case "object":
                required = schema.get("required", ())
                return {name: self._made_up(schema["properties"][name]) for name in required}
            case "array":
                return [self._made_up(schema.get("items", {}))]
            case "integer" | "number":
                return schema.get("minimum", 1)
            case "boolean":
                return True
        return EXAMPLE_TEXT


def _limits(schema: Schema) -> str:
    """How much or how long, where it is said."""
    match schema:
        case {"maxLength": most}:
            return f", up to {most:,} characters"
        case {"maxItems": most}:
            return f", up to {most:,}"
        case {"minimum": least, "maximum": most} if most < 2**31:
            return f", {least:,} to {most:,}"
    return ""


def _fields(content: Mapping[str, Any]) -> Schema:
    """What a body is made of: its schema, or what generators of clients would not understand."""
    schema: Schema = content.get("x-fields", content["schema"])
    return schema
