"""The pages of docs/reference/api/: every route of the OpenAPI document, how it is called and what it answers."""

from collections.abc import Callable
from dataclasses import replace
from functools import partial

from fastapi import FastAPI

from mediamill.access.model import Scope
from mediamill.api.openapi import DESCRIPTION, install_openapi
from mediamill.api.scopes import API
from mediamill.api.server import ROUTERS
from mediamill.ui.docs import Body, Fact, Route, Section, read_sections

BASE = "http://127.0.0.1:8420"


def api_sections() -> list[Section]:
    """The routes by their nouns."""
    server = FastAPI(title="mediamill", openapi_url=None)
    for router in ROUTERS:
        server.include_router(router)
    install_openapi(server)
    return read_sections(server.openapi(), BASE)


def api_pages(made: str) -> dict[str, Callable[[], str]]:
    """What writes each page, by its name; `made` is the line that says where they come from."""
    sections = api_sections()
    pages: dict[str, Callable[[], str]] = {"api/README.md": partial(_write_index, sections, made)}
    return pages | {f"api/{_file(each)}": partial(_write_section, each, made) for each in sections}


def _write_index(sections: list[Section], made: str) -> str:
    lines = [
        "# The HTTP API",
        "",
        made,
        "",
        DESCRIPTION,
        "The same as one document, for programs: `GET /openapi.json` of a running server; as a page of it: `/docs`.",
        "Who may call what is in [the table of routes](../routes.md).",
        "",
        "## By noun",
        "",
    ]
    for section in sections:
        calls = ", ".join(dict.fromkeys(f"`{route.path}`" for route in section.routes[:3]))
        more = " …" if len(section.routes) > 3 else ""
        lines.append(f"- [{_title(section)}]({_file(section)}): {calls}{more}")
    return "\n".join(lines) + "\n"


def _title(section: Section) -> str:
    return section.name[:1].upper() + section.name[1:]


def _file(section: Section) -> str:
    return f"{section.name.replace(' ', '-')}.md"


def _write_section(section: Section, made: str) -> str:
    lines = [f"# {_title(section)}", "", made]
    for route in section.routes:
        lines += ["", f"## {route.method} {route.path}", "", route.description.strip(), *_who(route)]
        lines += _table("parameter", route.parameters)
        for body in route.bodies:
            lines += _body(body)
        lines += _console(route.curl)
        lines += _answers(route)
    return "\n".join(line.rstrip() for line in lines) + "\n"


def _who(route: Route) -> list[str]:
    access = API.get(f"{route.method} {route.path}")
    if access is None:
        return []
    return ["", f"Who may: {f'`{access.who}`' if isinstance(access.who, Scope) else access.who}."]


def _body(body: Body) -> list[str]:
    return ["", f"Body, `{body.media_type}`:", *_table("field", body.facts), *_console(body.curl)]


def _console(curl: str) -> list[str]:
    return ["", "```sh", curl, "```"] if curl else []


def _answers(route: Route) -> list[str]:
    lines = ["", "| answer | what |", "|---|---|"]
    lines += [f"| {status} | {_cell(told)} |" for status, told, _ in route.answers]
    for status, _, facts in route.answers:
        if status.startswith("2") and facts:
            lines += _table(f"field of {status}", [replace(fact, required=False) for fact in facts])
    return lines


def _table(what: str, facts: list[Fact]) -> list[str]:
    if not facts:
        return []
    lines = ["", f"| {what} | type | what |", "|---|---|---|"]
    for fact in facts:
        place = f"in the {fact.place}. " if fact.place not in ("", "path", "query") else ""
        must = "Required. " if fact.required and fact.place != "path" else ""
        lines.append(
            f"| `{fact.name}` | {_cell(fact.kind)} | {f'{must}{place}{_cell(fact.description)}'.strip()} |"
        )
    return lines


def _cell(text: str) -> str:
    return " ".join(text.replace("|", "\\|").split())
