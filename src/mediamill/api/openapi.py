"""The OpenAPI document of all routes: FastAPI's, with our problems as the errors and our key as the security."""

from __future__ import annotations

from typing import Any

from fastapi import FastAPI, Request
from fastapi.openapi.utils import get_openapi
from starlette.responses import JSONResponse

from mediamill.access.model import Scope
from mediamill.api.message_shapes import SCHEMAS as MESSAGES
from mediamill.api.scopes import ROUTES, UNDECLARED, Access, Door

PATH = "/openapi.json"
OLD_PATH = "/api/openapi.json"
SUMMARY = "Media in from anywhere; text, streams, previews and search out: durably, exactly once."
DESCRIPTION = (
    "Every route asks for a token with the scope that it names: `Authorization: Bearer mill_…` "
    "(`mediamill tokens create`), or for the admin secret. "
    "What goes wrong is told as a problem (RFC 9457) with a stable `code`."
)
SCHEMES: dict[str, Any] = {
    "token": {"type": "http", "scheme": "bearer", "description": "A token, or MEDIAMILL_ADMIN_SECRET."},
    "worker": {"type": "http", "scheme": "bearer", "description": "The key of a registered worker."},
    "secret": {
        "type": "apiKey",
        "in": "header",
        "name": "X-Admin-Secret",
        "description": "MEDIAMILL_ADMIN_SECRET.",
    },
}
PROBLEM: dict[str, Any] = {
    "type": "object",
    "title": "Problem",
    "description": "What is wrong and, where known, what to do about it (RFC 9457).",
    "required": ["type", "title", "status", "detail", "code", "fix"],
    "properties": {
        "type": {"type": "string", "examples": ["urn:mediamill:problem:image_count_exceeded"]},
        "title": {"type": "string"},
        "status": {"type": "integer"},
        "detail": {"type": "string", "description": "For people."},
        "code": {
            "type": "string",
            "description": "For programs; stable.",
            "examples": ["image_count_exceeded"],
        },
        "fix": {"type": ["string", "null"]},
        "faults": {"type": "array", "items": {"type": "string"}},
    },
}
CODES: dict[tuple[str, str], dict[str, str]] = {
    ("/v1/messages", "post"): {
        "408": "`body_stalled`: nothing came for a minute.",
        "409": "`idempotency_payload_mismatch`: the key was used before, for something else.",
        "413": "`image_count_exceeded`, `image_total_bytes_exceeded` or `body_too_large`.",
        "415": "`media_type_unsupported`: neither JSON nor a form.",
        "422": "`json_invalid` or `form_invalid`: the body cannot be read. `invalid`: a field is missing, unknown, "
        "there twice, or not valid. `image_base64_invalid`, `image_mime_type_unsupported`, `idempotency_keys_differ`.",
        "503": "`inputs_busy`: too many images arrive at once; try again after Retry-After.",
    },
    ("/api/uploads", "post"): {
        "412": "`tus_version`: Tus-Resumable is missing or another.",
        "413": "`upload_too_large`: more than Tus-Max-Size.",
        "415": "`not_a_video`, by its first bytes; or `media_type_unsupported` of a first chunk.",
        "422": "`upload_header_invalid`, `length_deferred`, `empty_upload`, `bad_video_facts`.",
        "507": "`storage_full`: it would not fit on the disk.",
    },
    ("/api/uploads/{upload_id}", "head"): {"404": "`unknown_upload`: it ended or expired."},
    ("/api/uploads/{upload_id}", "patch"): {
        "400": "`checksum_unsupported`.",
        "404": "`unknown_upload`: it ended or expired.",
        "408": "`body_stalled`: nothing came for a minute.",
        "409": "`offset_mismatch`: HEAD says where to go on.",
        "412": "`tus_version`: Tus-Resumable is missing or another.",
        "413": "`beyond_length`: more than was announced.",
        "415": "`not_a_video`: the upload is deleted; or `media_type_unsupported`.",
        "423": "`upload_locked`: somebody else is sending it just now.",
        "460": "`checksum_mismatch`: the chunk is not kept.",
        "507": "`storage_full`: what came is kept.",
    },
    ("/api/uploads/{upload_id}", "delete"): {
        "404": "`unknown_upload`.",
        "423": "`upload_locked`.",
    },
    ("/api/videos/{who}", "get"): {"404": "`unknown_video`."},
    ("/api/videos/{who}", "patch"): {
        "404": "`unknown_video`.",
        "409": "`slug_taken`.",
        "422": "`bad_video_facts`: a title that is empty, a slug that cannot be one.",
    },
    ("/api/videos/{who}", "delete"): {
        "404": "`unknown_video`.",
        "409": "`in_trash`: it is there already; `not_in_trash`: only what is there can be erased.",
    },
    ("/api/videos/{who}/restore", "post"): {"404": "`unknown_video`.", "409": "`not_in_trash`."},
    ("/api/videos/{who}/retry", "post"): {"404": "`unknown_video`.", "409": "`nothing_to_retry`."},
    ("/api/videos/{who}/retranscode", "post"): {
        "404": "`unknown_video`.",
        "409": "`video_busy`: it is not ready, in the trash, or waits for a retranscode already.",
    },
    ("/api/videos/{who}/priority", "post"): {
        "404": "`unknown_video`.",
        "409": "`not_waiting`: none of its jobs waits.",
    },
    ("/api/videos/{who}/transcript", "get"): {"404": "`unknown_video`."},
    ("/api/videos/{who}/captions.vtt", "get"): {"404": "`unknown_video` or `no_captions`."},
    ("/api/videos/{video_id}/files/{output}/{name}", "get"): {"404": "`unknown_file`."},
    ("/api/videos/{video_id}/source", "get"): {"404": "`unknown_file`."},
    ("/api/projects", "post"): {
        "409": "`project_exists`.",
        "422": "`bad_project`, `bad_field`: a name, folder or field that cannot be one.",
    },
    ("/api/projects/{slug}", "get"): {"404": "`unknown_project`."},
    ("/api/projects/{slug}", "patch"): {"404": "`unknown_project`.", "422": "`bad_project`."},
    ("/api/projects/{slug}", "delete"): {"404": "`unknown_project`."},
    ("/api/projects/{slug}/fields", "put"): {"404": "`unknown_project`.", "422": "`bad_field`."},
    ("/api/projects/{slug}/files", "post"): {
        "404": "`unknown_project`.",
        "408": "`body_stalled`: nothing came for a minute.",
        "413": "`upload_too_large`: more than MEDIAMILL_UPLOAD_LIMIT_BYTES.",
        "507": "`storage_full`: it would not fit on the disk.",
    },
    ("/api/files/{file_id}", "get"): {"404": "`unknown_file`."},
    ("/api/files/{file_id}/priority", "post"): {
        "404": "`unknown_file`.",
        "409": "`not_waiting`: it does not wait.",
    },
    ("/api/files/{file_id}/pages/{number}", "get"): {
        "404": "`unknown_file`; `no_such_page`: it was not rendered."
    },
    ("/api/proposals/{proposal_id}/accept", "post"): {
        "404": "`unknown_proposal`.",
        "422": "`bad_value`: it is none of the field's type.",
    },
    ("/v1/runs/{run_id}", "get"): {"404": "`unknown_run`."},
    ("/v1/runs/{run_id}/retry", "post"): {"404": "`unknown_run`.", "409": "`run_not_failed`."},
    ("/v1/runs/{run_id}/events", "get"): {"404": "`unknown_run`."},
}


def install_openapi(server: FastAPI) -> None:
    """At both of its addresses."""

    def describe() -> dict[str, Any]:
        if server.openapi_schema is None:
            server.openapi_schema = _describe(server)
        return server.openapi_schema

    server.openapi = describe  # type: ignore[method-assign]
    for path in (PATH, OLD_PATH):
        server.get(path, include_in_schema=False)(_show)


async def _show(request: Request) -> JSONResponse:
    """An endpoint must not hold on to its server: FastAPI keeps the last 4,096 endpoints of a process in a cache."""
    return JSONResponse(request.app.openapi())


def _describe(server: FastAPI) -> dict[str, Any]:
    document = get_openapi(
        title=server.title,
        version=server.version,
        summary=SUMMARY,
        description=DESCRIPTION,
        routes=server.routes,
    )
    parts = document.setdefault("components", {})
    schemas = parts.setdefault("schemas", {})
    for unused in ("HTTPValidationError", "ValidationError"):
        schemas.pop(unused, None)
    schemas.update({"Problem": PROBLEM, **MESSAGES})
    parts["securitySchemes"] = SCHEMES
    asked = {_plain(name): access for name, access in ROUTES.items()}
    for path, methods in document["paths"].items():
        for method, operation in methods.items():
            access = asked.get(f"{method.upper()} {path}", UNDECLARED)
            operation["security"] = _security(access)
            operation["x-who"] = str(access.who)
            _tell_problems(operation["responses"], CODES.get((path, method), {}))
    return document


def _plain(name: str) -> str:
    """Method and path as the document writes them."""
    return name.replace(":path}", "}")


def _security(access: Access) -> list[dict[str, list[str]]]:
    """What a route takes."""
    match access.who:
        case Scope():
            return [{"token": [access.who.value]}]
        case Door.WORKER_KEY:
            return [{"worker": []}]
        case Door.REGISTRATION:
            return [{"secret": []}, {"token": [Scope.WORKER.value]}]
        case Door.LOGGED_IN:
            return [{"token": []}]
        case _:
            return [{}]


def _tell_problems(responses: dict[str, Any], codes: dict[str, str]) -> None:
    if "422" in responses:
        responses["422"] = _problem("`invalid`: what was sent is not valid.")
    for status, what in codes.items():
        responses[status] = _problem(what)
    responses["default"] = _problem("Any other problem.")


def _problem(what: str) -> dict[str, Any]:
    schema = {"$ref": "#/components/schemas/Problem"}
    return {"description": what, "content": {"application/problem+json": {"schema": schema}}}
