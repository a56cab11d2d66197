"""Who may call which route: every route there is, in one table, which the guard enforces.

A route that is not here keeps the server from starting (`check_declared`). `audit` names what a change is called in the
audit log; `costly` routes share a limit of requests (MEDIAMILL_COSTLY_REQUESTS_PER_MINUTE).
docs/reference/routes.md is made from this table by scripts/reference.py.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from fastapi import FastAPI

from mediamill.access.model import Scope
from mediamill.api.route_map import Reached, declared_names
from mediamill.errors import InvalidError


class Door(StrEnum):
    """Routes that no scope opens."""

    ANYBODY = "anybody"
    LOGGED_IN = "anybody who is logged in"
    WORKER_KEY = "a worker, with its key"
    OWN_SECRET = "whoever has its own secret"  # noqa: S105
    REGISTRATION = "whoever has the admin secret, or the scope `worker`"


@dataclass(frozen=True, slots=True)
class Access:
    """What a route asks of its callers."""

    who: Scope | Door
    audit: str | None = None
    costly: bool = False


class UndeclaredRouteError(InvalidError):
    """A route is not in the table of who may call it."""

    code = "undeclared_route"


ANYBODY, LOGGED_IN = Access(Door.ANYBODY), Access(Door.LOGGED_IN)
KEY, OWN = Access(Door.WORKER_KEY), Access(Door.OWN_SECRET)
READ, INGEST, ADMIN = Access(Scope.READ), Access(Scope.INGEST), Access(Scope.ADMIN)
DEAR_READ, DEAR_INGEST = Access(Scope.READ, costly=True), Access(Scope.INGEST, costly=True)
UNDECLARED = Access(Scope.ADMIN, "undeclared")


def ingest(audit: str) -> Access:
    """A change that can be undone, and that somebody may ask about later."""
    return Access(Scope.INGEST, audit)


def admin(audit: str) -> Access:
    """A change that is noted."""
    return Access(Scope.ADMIN, audit)


API: dict[str, Access] = {
    # health, figures, events, documents
    "GET /health": ANYBODY,
    "GET /api/health": READ,
    "GET /metrics": READ,
    "GET /api/events": READ,
    "GET /openapi.json": READ,
    "GET /api/openapi.json": READ,
    # engine. A job is anything that a worker can do, so making one by hand is the operator's
    "GET /api/jobs": READ,
    "GET /api/jobs/{job_id}": READ,
    "POST /api/jobs": admin("job.add"),
    "POST /api/jobs/purge": admin("job.purge"),
    "POST /api/jobs/{job_id}/retry": ingest("job.retry"),
    "DELETE /api/jobs/{job_id}": admin("job.purge"),
    "GET /api/dead": READ,
    "GET /api/dead/summary": READ,
    "GET /api/dead/{job_id}": READ,
    "POST /api/dead/requeue": ingest("dead.requeue"),
    "POST /api/dead/purge": admin("dead.purge"),
    "GET /api/pools": READ,
    "PUT /api/pools": admin("pools.change"),
    "PUT /api/pools/{name}": admin("pool.change"),
    "DELETE /api/pools/{name}": admin("pool.remove"),
    "GET /api/workers": READ,
    "POST /api/workers/{worker_id}/command": admin("worker.command"),
    "POST /api/workers/{worker_id}/disable": admin("worker.disable"),
    "POST /api/workers/{worker_id}/enable": admin("worker.enable"),
    "POST /api/workers/{worker_id}/revoke": admin("worker.revoke"),
    "GET /api/flight-dumps": READ,
    "GET /api/flight-dumps/{dump_id}": Access(Scope.ADMIN),
    "GET /api/owners/held": READ,
    "POST /api/owners/{owner:path}/hold": admin("owner.hold"),
    "POST /api/owners/{owner:path}/release": admin("owner.release"),
    "GET /api/storage": READ,
    "GET /api/settings": ADMIN,
    "GET /api/configuration": READ,
    "GET /api/configuration/{name}": READ,
    "PUT /api/configuration/{name}": admin("configuration.change"),
    "DELETE /api/configuration/{name}": admin("configuration.change"),
    # bots and conversations
    "GET /api/bots": READ,
    "POST /api/bots": admin("bot.add"),
    "GET /api/bots/{bot_id}": READ,
    "PUT /api/bots/{bot_id}": admin("bot.change"),
    "DELETE /api/bots/{bot_id}": admin("bot.remove"),
    "POST /api/bots/{bot_id}/start": admin("bot.start"),
    "POST /api/bots/{bot_id}/stop": admin("bot.stop"),
    "GET /api/bots/{bot_id}/senders": READ,
    "POST /api/bots/{bot_id}/pair": admin("bot.sender"),
    "PUT /api/bots/{bot_id}/senders/{provider}/{sender:path}": admin("bot.sender"),
    "DELETE /api/bots/{bot_id}/senders/{provider}/{sender:path}": admin("bot.sender"),
    "GET /api/bots/{bot_id}/conversations": READ,
    "GET /api/bots/{bot_id}/conversations/{provider}/{correspondent:path}/messages": READ,
    "POST /api/bots/{bot_id}/conversations/{provider}/{correspondent:path}/messages/{message_id}/retry": INGEST,
    "POST /api/bots/{bot_id}/chat/{correspondent}/messages": DEAR_INGEST,
    "POST /api/bots/{bot_id}/chat/{correspondent}/media": DEAR_INGEST,
    "POST /api/telegram/{bot_id}/webhook": OWN,
    "WEBSOCKET /api/bridge/whatsapp/{bot_id}": OWN,
    # messages for the agent
    "POST /v1/messages": DEAR_INGEST,
    "GET /v1/runs/{run_id}": READ,
    "POST /v1/runs/{run_id}/retry": DEAR_INGEST,
    "GET /v1/threads/{thread_key:path}/runs": READ,
    "GET /v1/runs/{run_id}/events": READ,
    # videos
    "OPTIONS /api/uploads": INGEST,
    "OPTIONS /api/uploads/{upload_id}": INGEST,
    "POST /api/uploads": INGEST,
    "HEAD /api/uploads/{upload_id}": INGEST,
    "PATCH /api/uploads/{upload_id}": INGEST,
    "DELETE /api/uploads/{upload_id}": INGEST,
    "POST /api/uploads/{upload_id}": INGEST,
    "GET /api/videos": READ,
    "GET /api/video-categories": READ,
    "DELETE /api/video-trash": admin("video.erase"),
    "GET /api/videos/{who}": READ,
    "PATCH /api/videos/{who}": INGEST,
    "DELETE /api/videos/{who}": ingest("video.delete"),  # for ever: admin
    "POST /api/videos/{who}/restore": ingest("video.restore"),
    "POST /api/videos/{who}/retry": INGEST,
    "POST /api/videos/{who}/retranscode": DEAR_INGEST,
    "POST /api/videos/{who}/priority": INGEST,
    "GET /api/videos/{who}/transcript": READ,
    "GET /api/videos/{who}/captions.vtt": READ,
    "GET /api/videos/{video_id}/files/{output}/{name}": READ,
    "GET /api/videos/{video_id}/source": READ,
    # libraries. One that is added opens a folder of this machine to every reader
    "GET /api/libraries": READ,
    "POST /api/libraries": admin("library.add"),
    "GET /api/libraries/{slug}": READ,
    "PATCH /api/libraries/{slug}": admin("library.change"),
    "DELETE /api/libraries/{slug}": admin("library.delete"),
    "POST /api/libraries/{slug}/restore": admin("library.restore"),
    "POST /api/libraries/{slug}/scan": DEAR_INGEST,
    "POST /api/libraries/{slug}/pause": INGEST,
    "POST /api/libraries/{slug}/resume": INGEST,
    "POST /api/libraries/{slug}/tagger": admin("library.change"),
    "POST /api/libraries/{slug}/retry": DEAR_INGEST,
    "POST /api/libraries/{slug}/remake": DEAR_INGEST,
    "GET /api/libraries/{slug}/assets": READ,
    "GET /api/libraries/{slug}/timeline": READ,
    "GET /api/assets/{asset_id}": READ,
    "POST /api/assets/{asset_id}/retry": INGEST,
    "POST /api/assets/{asset_id}/remake": INGEST,
    "GET /api/assets/{asset_id}/files/{output}/{name}": READ,
    "GET /api/assets/{asset_id}/source": READ,
    "GET /api/trash": READ,
    "POST /api/trash/empty": admin("trash.empty"),
    # projects. One can watch a folder of this machine
    "GET /api/projects": READ,
    "POST /api/projects": admin("project.add"),
    "GET /api/projects/{slug}": READ,
    "PATCH /api/projects/{slug}": admin("project.change"),
    "DELETE /api/projects/{slug}": admin("project.delete"),
    "PUT /api/projects/{slug}/fields": admin("project.change"),
    "POST /api/projects/{slug}/accept": INGEST,
    "GET /api/projects/{slug}/export.csv": DEAR_READ,
    "GET /api/projects/{slug}/export.json": DEAR_READ,
    "POST /api/projects/{slug}/files": INGEST,
    "GET /api/projects/{slug}/files": READ,
    "POST /api/projects/{slug}/reprocess": DEAR_INGEST,
    "GET /api/projects/{slug}/proposals": READ,
    "GET /api/files/{file_id}": READ,
    "DELETE /api/files/{file_id}": admin("file.delete"),
    "POST /api/files/{file_id}/reprocess": DEAR_INGEST,
    "POST /api/files/{file_id}/read-on": DEAR_INGEST,
    "PUT /api/files/{file_id}/category": DEAR_INGEST,
    "POST /api/files/{file_id}/priority": INGEST,
    "GET /api/files/{file_id}/source": READ,
    "GET /api/files/{file_id}/pages/{number}": READ,
    "GET /api/files/{file_id}/thumbnail": READ,
    "POST /api/files/{file_id}/values": INGEST,
    "POST /api/findings/{finding_id}/field": admin("project.change"),
    "POST /api/findings/{finding_id}/drop": admin("project.change"),
    "POST /api/proposals/{proposal_id}/accept": INGEST,
    "POST /api/proposals/{proposal_id}/reject": INGEST,
    "POST /api/proposals/{proposal_id}/reopen": INGEST,
    "GET /api/search": DEAR_READ,
    # users, tokens, what was done
    "GET /api/whoami": LOGGED_IN,
    "GET /api/users": ADMIN,
    "POST /api/users": admin("user.add"),
    "PATCH /api/users/{name}": admin("user.change"),
    "DELETE /api/users/{name}": admin("user.remove"),
    "DELETE /api/users/{name}/second-factor": admin("user.change"),
    "GET /api/tokens": ADMIN,
    "POST /api/tokens": admin("token.create"),
    "DELETE /api/tokens/{token_id}": admin("token.revoke"),
    "GET /api/audit": ADMIN,
    # workers without a database
    "POST /api/worker/register": Access(Door.REGISTRATION, "worker.register"),
    "POST /api/worker/heartbeat": KEY,
    "POST /api/worker/extend": KEY,
    "POST /api/worker/claim": KEY,
    "POST /api/worker/progress": KEY,
    "POST /api/worker/complete": KEY,
    "POST /api/worker/fail": KEY,
    "POST /api/worker/reroute": KEY,
    "POST /api/worker/release": KEY,
    "POST /api/worker/hello": KEY,
    "GET /api/worker/pools": KEY,
    "GET /api/worker/wakes": KEY,
    "POST /api/worker/leave": KEY,
    "PUT /api/worker/dumps/{name}": KEY,
    "GET /api/worker/jobs/{job_id}/input": KEY,
    "GET /api/worker/jobs/{job_id}/input/{name}": KEY,
    "GET /api/worker/jobs/{job_id}/kept": KEY,
    "PUT /api/worker/jobs/{job_id}/kept/{name}": KEY,
    "PUT /api/worker/jobs/{job_id}/files/{path:path}": KEY,
}

PAGES: dict[str, Access] = {
    "GET /login": ANYBODY,
    "POST /login": ANYBODY,
    "GET /login/code": ANYBODY,
    "POST /login/code": ANYBODY,
    "POST /login/passkey/begin": ANYBODY,
    "POST /login/passkey": ANYBODY,
    "GET /login/oidc": ANYBODY,
    "GET /login/oidc/callback": ANYBODY,
    "POST /logout": ANYBODY,
    "GET /open": ANYBODY,  # whoever has a link that was signed with the key in the data folder
    "GET /static/mediamill.css": ANYBODY,
    "GET /static/favicon.svg": ANYBODY,
    "GET /static/passkeys.js": ANYBODY,
    "GET /static": READ,
    "GET /": READ,
    "GET /live": READ,
    "GET /docs": READ,
    "GET /jobs": READ,
    "GET /jobs/{job_id}": READ,
    "POST /jobs/{job_id}/retry": ingest("job.retry"),
    "POST /jobs/{job_id}/purge": admin("job.purge"),
    "GET /dead": READ,
    "POST /dead/requeue": ingest("dead.requeue"),
    "POST /dead/purge": admin("dead.purge"),
    "GET /storage": READ,
    "POST /storage/quota": admin("configuration.change"),
    "GET /settings": ADMIN,
    "GET /pools": READ,
    "POST /pools": admin("pool.change"),
    "GET /pools/{name:path}": READ,
    "POST /pools/{name:path}": admin("pool.change"),
    "POST /pools/{name:path}/drop": admin("pool.remove"),
    "GET /workers": READ,
    "POST /workers/{worker_id}/{command}": admin("worker.command"),
    "GET /bots": READ,
    "POST /bots": admin("bot.add"),
    "GET /bots/{bot_id}": READ,
    "POST /bots/{bot_id}/start": admin("bot.start"),
    "POST /bots/{bot_id}/stop": admin("bot.stop"),
    "POST /bots/{bot_id}/config": admin("bot.change"),
    "POST /bots/{bot_id}/delete": admin("bot.remove"),
    "POST /bots/{bot_id}/access": admin("bot.change"),
    "POST /bots/{bot_id}/senders": admin("bot.sender"),
    "GET /bots/{bot_id}/chat": READ,
    "GET /bots/{bot_id}/{provider}/{correspondent:path}": READ,
    "POST /bots/{bot_id}/{provider}/{correspondent:path}": DEAR_INGEST,
    "GET /videos": READ,
    "GET /videos/{who}": READ,
    "POST /videos/{video_id}/edit": INGEST,
    "POST /videos/{video_id}/retry": INGEST,
    "POST /videos/{video_id}/retranscode": DEAR_INGEST,
    "POST /videos/{video_id}/priority": INGEST,
    "POST /videos/{video_id}/delete": ingest("video.delete"),
    "POST /videos/{video_id}/restore": ingest("video.restore"),
    "POST /videos/{video_id}/erase": admin("video.erase"),
    "GET /libraries": READ,
    "POST /libraries": admin("library.add"),
    "POST /libraries/{slug}/scan": DEAR_INGEST,
    "POST /libraries/{slug}/pause": INGEST,
    "POST /libraries/{slug}/resume": INGEST,
    "POST /libraries/{slug}/remove": admin("library.delete"),
    "POST /libraries/{slug}/restore": admin("library.restore"),
    "GET /libraries/{slug}": READ,
    "GET /libraries/{slug}/cells": READ,
    "GET /assets/{asset_id}": READ,
    "POST /assets/{asset_id}/retry": INGEST,
    "POST /assets/{asset_id}/remake": INGEST,
    "GET /trash": READ,
    "POST /trash/empty": admin("trash.empty"),
    "POST /trash/{slug}/erase": admin("library.erase"),
    "GET /projects": READ,
    "POST /projects": admin("project.add"),
    "GET /projects/{slug}": READ,
    "GET /projects/{slug}/values": DEAR_READ,
    "POST /projects/{slug}/edit": admin("project.change"),
    "POST /projects/{slug}/fields": admin("project.change"),
    "POST /projects/{slug}/reprocess": DEAR_INGEST,
    "POST /projects/{slug}/accept": INGEST,
    "POST /projects/{slug}/delete": admin("project.delete"),
    "GET /projects/{slug}/files/{file_id}": READ,
    "POST /projects/{slug}/files/{file_id}/reprocess": DEAR_INGEST,
    "POST /projects/{slug}/files/{file_id}/read-on": DEAR_INGEST,
    "POST /projects/{slug}/files/{file_id}/category": DEAR_INGEST,
    "POST /projects/{slug}/files/{file_id}/priority": INGEST,
    "POST /projects/{slug}/files/{file_id}/delete": admin("file.delete"),
    "POST /projects/{slug}/files/{file_id}/accept": INGEST,
    "POST /projects/{slug}/files/{file_id}/values": INGEST,
    "POST /projects/{slug}/files/{file_id}/findings/{finding_id}/field": admin("project.change"),
    "POST /projects/{slug}/files/{file_id}/findings/{finding_id}/drop": admin("project.change"),
    "POST /projects/{slug}/files/{file_id}/proposals/{proposal_id}/accept": INGEST,
    "POST /projects/{slug}/files/{file_id}/proposals/{proposal_id}/reject": INGEST,
    "POST /projects/{slug}/files/{file_id}/proposals/{proposal_id}/reopen": INGEST,
    "GET /search": DEAR_READ,
    "GET /access": ADMIN,
    "POST /access/users": admin("user.add"),
    "POST /access/users/{name}/{change}": admin("user.change"),
    "POST /access/tokens": admin("token.create"),
    "POST /access/tokens/{token_id}/revoke": admin("token.revoke"),
    "GET /audit": ADMIN,
    "GET /account": LOGGED_IN,
    "POST /account/password": Access(Door.LOGGED_IN, "user.password"),
    "POST /account/second-factor": Access(Door.LOGGED_IN, "user.second_factor"),
    "POST /account/second-factor/confirm": Access(Door.LOGGED_IN, "user.second_factor"),
    "POST /account/second-factor/remove": Access(Door.LOGGED_IN, "user.second_factor"),
    "POST /account/passkeys/begin": Access(Door.LOGGED_IN, "user.passkey"),
    "POST /account/passkeys": Access(Door.LOGGED_IN, "user.passkey"),
    "POST /account/passkeys/{passkey_id}/remove": Access(Door.LOGGED_IN, "user.passkey"),
    "POST /account/log-out-others": Access(Door.LOGGED_IN, "user.log_out_others"),
}

ROUTES = API | PAGES
OPEN_PATHS = frozenset(
    name.partition(" ")[2] for name, access in ROUTES.items() if access == ANYBODY
)  # to whoever asks, also a stranger


def access_of(name: str) -> Access | None:
    """What the table says of a route, by method and path; who may GET may ask for the head alone."""
    if name in ROUTES:
        return ROUTES[name]
    method, _, path = name.partition(" ")
    return ROUTES.get(f"GET {path}") if method == "HEAD" else None


def access_to(reached: Reached | None) -> Access | None:
    """What is asked of whoever reaches this route; None if it is no route. One that nobody declared is the admin's."""
    if reached is None:
        return None
    return next((found for name in reached.names if (found := access_of(name)) is not None), UNDECLARED)


def check_declared(server: FastAPI) -> None:
    """Every route of the application is in the table."""
    missing = sorted({name for name in declared_names(server) if access_of(name) is None})
    if missing:
        raise UndeclaredRouteError(
            f"nobody said who may call {', '.join(missing)}",
            fix="add each route to the table in src/mediamill/api/scopes.py",
        )
