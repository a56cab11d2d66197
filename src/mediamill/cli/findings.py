"""What `mediamill check` looks at. Each function looks at one thing and returns all that it finds there."""

from __future__ import annotations

import errno
import json
import os
import shutil
import socket
import urllib.error
import urllib.request
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal
from urllib.parse import urlsplit

from mediamill.access.places import is_loopback
from mediamill.backup.marker import RestoreUnfinishedError, check_whole
from mediamill.cli.faults import PREFIX, Fault
from mediamill.cli.terminal import size

if TYPE_CHECKING:
    from mediamill.engine.pools import Pool
    from mediamill.settings import Settings

LITTLE_SPACE_BYTES = 1_000_000_000
SHORT_SECRET = 16
TOO_LITTLE_SPACE_BYTES = 100_000_000
# Read by the command itself, before there are settings.
OTHER_VARIABLES = (f"{PREFIX}DEBUG",)
# These two know their webhooks by a secret in the address, and check no signature.
UNSIGNED_HOSTS = ("hooks.slack.com", "discord.com", "discordapp.com")


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that was looked at."""

    status: Literal["ok", "note", "fault"]
    about: str
    message: str
    fix: str | None = None


def find_unknown_variables(environment: Mapping[str, str]) -> list[Finding]:
    """Variables that look like settings and are none: most often a slip of the finger."""
    from mediamill.settings import Settings

    known = [PREFIX + name.upper() for name in Settings.model_fields] + list(OTHER_VARIABLES)
    findings = []
    for name in sorted(environment):
        if name.upper().startswith(PREFIX) and name.upper() not in known:
            close = get_close_matches(name.upper(), known, 1)
            fix = (
                f"did you mean {close[0]}?"
                if close
                else "unset it; docs/reference/settings.md lists them all"
            )
            findings.append(Finding("fault", "settings", f"there is no setting {name}", fix))
    return findings


def read_settings() -> tuple[Settings, list[Finding]]:
    """The settings, with the default where a value is bad, so that the rest can be looked at too."""
    from pydantic import ValidationError

    from mediamill.cli.faults import settings_faults
    from mediamill.settings import Settings

    try:
        return Settings(), []
    except ValidationError as error:
        bad = {str(each["loc"][0]) for each in error.errors() if each["loc"]}
        faults = [_fault("settings", fault) for fault in settings_faults(error)]
        defaults = {name: Settings.model_fields[name].default for name in bad}
        # Nobody chose the default port: that another program has it is no fault of this configuration.
        return Settings(**defaults | ({"port": 0} if "port" in bad else {})), faults


def _fault(about: str, fault: Fault) -> Finding:
    return Finding("fault", about, fault.message, fault.fix)


def find_folder_faults(folder: Path) -> list[Finding]:
    """Can the data folder be made and written, and is there room?"""
    about = "data folder"
    choose = "choose another MEDIAMILL_DATA"
    try:
        there = next(each for each in (folder, *folder.parents) if each.exists())
    except OSError as error:
        return [Finding("fault", about, f"{folder}: {error.strerror}", choose)]
    if not there.is_dir():
        return [Finding("fault", about, f"{there} is a file", f"set {PREFIX}DATA to a folder")]
    if not os.access(there, os.W_OK | os.X_OK):
        return [
            Finding("fault", about, f"{there} cannot be written", f"let this user write there, or {choose}")
        ]
    try:
        check_whole(folder)
    except RestoreUnfinishedError as error:
        return [Finding("fault", about, error.message, error.fix)]
    free = shutil.disk_usage(there).free
    said = f"{folder}, {size(free)} free" + ("" if there == folder else "; it will be made")
    if free < TOO_LITTLE_SPACE_BYTES:
        return [
            Finding("fault", about, f"only {size(free)} are free in {there}", f"free some space, or {choose}")
        ]
    if free < LITTLE_SPACE_BYTES:
        return [Finding("note", about, said, "media need room: free some space")]
    return [Finding("ok", about, said)]


def find_server_faults(settings: Settings) -> list[Finding]:
    """Who may reach the server, and is its port to be had?"""
    findings = []
    if not is_loopback(settings.host) and settings.admin_secret is None:
        fix = f"set {PREFIX}ADMIN_SECRET to what `openssl rand -hex 32` prints, or leave {PREFIX}HOST at 127.0.0.1"
        message = f"the server would listen on {settings.host} without an admin secret"
        findings.append(Finding("fault", "server", message, fix))
    elif settings.admin_secret is not None and _is_weak(settings.admin_secret.get_secret_value()):
        message = f"the admin secret is easy to guess, or has fewer than {SHORT_SECRET} characters"
        fix = f"set {PREFIX}ADMIN_SECRET to what `openssl rand -hex 32` prints"
        findings.append(Finding("fault", "server", message, fix))
    return [*findings, _find_port(settings.host, settings.port)]


def _is_weak(secret: str) -> bool:
    from mediamill.access.passwords import is_guessable

    return len(secret) < SHORT_SECRET or is_guessable(secret)


def _find_port(host: str, port: int) -> Finding:
    try:
        family, _, _, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        with socket.socket(family, socket.SOCK_STREAM) as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            probe.bind(address)
    except socket.gaierror as error:
        fix = f"set {PREFIX}HOST to an address of this machine"
        return Finding("fault", "server", f"{host} is no address: {error.strerror}", fix)
    except OSError as error:
        if error.errno == errno.EADDRINUSE and is_mediamill(host, port):
            return Finding("ok", "server", f"mediamill answers on {host}:{port}")
        fix = f"choose another {PREFIX}PORT or {PREFIX}HOST"
        return Finding("fault", "server", f"cannot listen on {host}:{port}: {error.strerror}", fix)
    return Finding("ok", "server", f"{host}:{port} is free" if port else "any free port")


def is_mediamill(host: str, port: int) -> bool:
    """Does the server behind this port answer as ours does?"""
    try:
        with urllib.request.urlopen(f"http://{host}:{port}/health", timeout=3) as answer:
            body = answer.read(10_000)
    except urllib.error.HTTPError as error:
        body = error.read(10_000)
    except (OSError, ValueError):
        return False
    try:
        return "pending_jobs" in json.loads(body)
    except (ValueError, TypeError):
        return False


def find_sign_on_gaps(settings: Settings) -> list[Finding]:
    """What single sign-on needs and is not set."""
    about = "single sign-on"
    if settings.oidc_issuer is None:
        left = [name for name in ("oidc_client_id", "oidc_client_secret") if getattr(settings, name)]
        fix = f"set {PREFIX}OIDC_ISSUER, or unset the others"
        message = f"{PREFIX}OIDC_ISSUER is not set, but {', '.join(PREFIX + name.upper() for name in left)}"
        return [Finding("fault", about, message, fix)] if left else []
    findings = []
    if settings.oidc_client_id is None:
        fix = f"set {PREFIX}OIDC_CLIENT_ID to the id that the provider gave us"
        findings.append(Finding("fault", about, f"{PREFIX}OIDC_CLIENT_ID is not set", fix))
    if not settings.oidc_admins and not settings.oidc_users:
        fix = f"name groups or e-mail addresses in {PREFIX}OIDC_ADMINS or {PREFIX}OIDC_USERS"
        findings.append(Finding("fault", about, "nobody may log in by it", fix))
    if "openid" not in settings.oidc_scopes.split():
        findings.append(Finding("fault", about, f"{PREFIX}OIDC_SCOPES lacks openid", "add it"))
    if settings.public_url is None and not is_loopback(settings.host):
        fix = f"set {PREFIX}PUBLIC_URL to the address in the browser (https://mill.example)"
        findings.append(Finding("fault", about, "the provider cannot send browsers back", fix))
    return findings


def find_alert_faults(settings: Settings) -> list[Finding]:
    """Alerts that could not be sent, or not be trusted."""
    about = "alerts"
    if settings.alert_webhook_url is None:
        return []
    url = urlsplit(settings.alert_webhook_url.get_secret_value())
    if url.scheme not in ("http", "https") or not url.hostname:
        fix = "write it like https://example.org/hook"
        return [Finding("fault", about, f"{PREFIX}ALERT_WEBHOOK_URL is not an http(s) address", fix)]
    if url.hostname in UNSIGNED_HOSTS:
        return [Finding("ok", about, f"go to {url.hostname}")]
    if settings.alert_webhook_secret is None:
        fix = f"set {PREFIX}ALERT_WEBHOOK_SECRET (whsec_…), so that the receiver can tell them from forgeries"
        return [Finding("fault", about, "the alert webhook has no secret to sign with", fix)]
    try:
        from standardwebhooks import Webhook

        Webhook(settings.alert_webhook_secret.get_secret_value())
    except Exception:
        fix = "take whsec_ and base64 of 24 to 64 random bytes"
        return [Finding("fault", about, f"{PREFIX}ALERT_WEBHOOK_SECRET is not a signing secret", fix)]
    return [Finding("ok", about, f"go to {url.hostname}, signed")]


def find_trace_faults(settings: Settings) -> list[Finding]:
    """Traces that are wanted and cannot be made."""
    from mediamill.traces import is_installed, is_wanted

    if not is_wanted(settings.traces_url):
        return []
    if not is_installed():
        fix = "pip install 'mediamill[otel]', or unset what asks for them"
        return [Finding("fault", "traces", "they are wanted, but OpenTelemetry is not installed", fix)]
    return [Finding("ok", "traces", "are sent by OTLP")]


def find_pool_faults(pools: Sequence[Pool], worker_pools: str) -> list[Finding]:
    """Pools that name what is not installed, or break a rule; and a worker's wish for a pool that is not there."""
    from mediamill.engine.pools import judge_pools
    from mediamill.processors.registry import processor_names

    fix = "mediamill pools set changes a pool; install what a processor needs"
    findings = [Finding("fault", "pools", fault, fix) for fault in judge_pools(pools, processor_names())]
    names = [pool.name for pool in pools]
    for wish in filter(None, (part.strip() for part in worker_pools.split(","))):
        if wish not in names:
            close = get_close_matches(wish, names, 1)
            fix = f"did you mean {close[0]}?" if close else f"there are {', '.join(names)}"
            message = f"{PREFIX}WORKER_POOLS names {wish}, and there is no such pool"
            findings.append(Finding("fault", "pools", message, fix))
    return findings or [Finding("ok", "pools", ", ".join(names))]


def find_plugin_faults(settings: Settings) -> list[Finding]:
    """What installed packages bring, and what of it is left out."""
    from mediamill.app import PROVIDER_NAMES, our_kinds
    from mediamill.plugins import list_plugins

    findings = []
    for plugin in list_plugins(our_kinds(settings), PROVIDER_NAMES):
        about = f"{plugin.sort} {plugin.name} of {plugin.package} {plugin.version}"
        if plugin.fault is None:
            findings.append(Finding("ok", "plugins", about))
        else:
            fix = f"mend or uninstall {plugin.package}; until then mediamill goes on without it"
            findings.append(Finding("fault", "plugins", f"{about} is left out: {plugin.fault}", fix))
    return findings


def find_bot_faults(bots: Sequence[Mapping[str, Any]]) -> list[Finding]:
    """Bots that should run and whose chat networks are not connected, and those that anybody may talk to."""
    from mediamill.conversations.bots import is_open_to_all

    findings = []
    for bot in bots:
        states = {name: bot["status"].get(name, {}).get("state") for name in bot["config"]["providers"]}
        down = [
            f"{name} is {state or 'not started'}" for name, state in states.items() if state != "connected"
        ]
        if bot["running"] and down:
            pairing = "pairing" in states.values()
            fix = (
                f"mediamill bots qr {bot['id']}"
                if pairing
                else "mediamill up runs it; mediamill bots show says more"
            )
            findings.append(Finding("note", "bots", f"{bot['id']}: {', '.join(down)}", fix))
        if is_open_to_all(bot):
            what = f"{bot['id']}: anybody who knows its number or name may talk to it, at your cost"
            findings.append(Finding("note", "bots", what, f"mediamill bots set {bot['id']} access=paired"))
    told = [f"{bot['id']} ({'running' if bot['running'] else 'stopped'})" for bot in bots]
    return findings or ([Finding("ok", "bots", ", ".join(told))] if told else [])


def find_model_faults(settings: Settings) -> list[Finding]:
    """Models that the settings ask for and that are not there. Their hashes are `mediamill models check`."""
    from mediamill.processors.models.in_use import models_in_use
    from mediamill.processors.models.installed import is_installed

    used = models_in_use(settings)
    missing = [model.name for model in used if not is_installed(model, settings.models_folder)]
    if missing:
        fix = f"mediamill models fetch {' '.join(missing)}"
        return [Finding("note", "models", f"not installed: {', '.join(missing)}", fix)]
    return [Finding("ok", "models", ", ".join(model.name for model in used))]
