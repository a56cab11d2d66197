"""Puts the pi agent (an npm package, pinned) and a Node.js on this machine, and writes the configuration for it."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from mediamill.agents.openai_chat import DEFAULT_MODEL, checked_key, checked_url
from mediamill.environment import network_environment
from mediamill.node import find_node, npm_ci
from mediamill.settings import Settings

OLDEST_NODE = (22, 19)
PACKAGE = Path(__file__).with_name("pi_package")
SCRIPT = Path("node_modules/@earendil-works/pi-coding-agent/dist/bundle/cli.js")
PROVIDER = "mediamill"
KEY_VARIABLE = "MEDIAMILL_PI_KEY_FD"
# pi takes what this prints for the key. The shell's parent is pi itself, which holds the descriptor.
READ_KEY = f"!cat /proc/$PPID/fd/${KEY_VARIABLE}"


@dataclass(frozen=True, slots=True)
class PiProgram:
    """How pi is run."""

    node: Path
    script: Path


def pi_folder(settings: Settings) -> Path:
    """Where pi's configuration and its threads lie."""
    return settings.data_folder / "agents" / "pi"


def install_pi(settings: Settings, tell: Callable[[str], None] = lambda _: None) -> PiProgram:
    """See that pi is installed in the data folder. Needs the package indexes the first time, and then no network."""
    tools = settings.data_folder / "tools"
    node = find_node(tools, OLDEST_NODE, tell)
    return PiProgram(node.node, npm_ci(node, tools / "pi", PACKAGE, tell) / SCRIPT)


def configure_pi(settings: Settings) -> Path:
    """Write pi's configuration from our settings; its folder, one for each configuration that is in use."""
    models, preferences = {"providers": {PROVIDER: _provider(settings)}}, _preferences(settings)
    name = hashlib.sha256(json.dumps([models, preferences]).encode()).hexdigest()[:16]
    folder = pi_folder(settings) / "config" / name
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    _write(folder / "models.json", models)
    _write(folder / "settings.json", preferences)
    return folder


def _provider(settings: Settings) -> dict[str, Any]:
    model = {
        "id": settings.text_model or DEFAULT_MODEL,
        # Whether it sees is not known: pi would drop images in silence, the endpoint says it if it cannot.
        "input": ["text", "image"],
        "contextWindow": settings.agent_context_tokens,
        "maxTokens": min(16_384, settings.agent_context_tokens // 4),
    }
    compatible = {"supportsStore": False, "supportsDeveloperRole": False, "supportsReasoningEffort": False}
    return {
        "baseUrl": str(checked_url(settings)).rstrip("/"),
        "api": "openai-completions",
        "apiKey": READ_KEY,
        "compat": {**compatible, "maxTokensField": "max_tokens"},
        "models": [model],
    }


def _preferences(settings: Settings) -> dict[str, Any]:
    room = settings.agent_context_tokens // 4
    return {
        "defaultProvider": PROVIDER,
        "defaultModel": settings.text_model or DEFAULT_MODEL,
        "compaction": {"reserveTokens": min(16_384, room), "keepRecentTokens": min(20_000, room)},
        "retry": {"maxRetries": 2, "baseDelayMs": 500, "provider": {"maxRetryDelayMs": 10_000}},
        "httpIdleTimeoutMs": int(settings.model_timeout_seconds * 1000),
        "enableInstallTelemetry": False,
        "defaultProjectTrust": "never",
        "cacheWarming": "off",
        "images": {"autoResize": False},  # callers make them small; pi would leave out what it cannot decode
    }


def _write(path: Path, told: dict[str, Any]) -> None:
    fresh = path.with_suffix(f".{os.getpid()}.new")
    fresh.write_text(json.dumps(told, indent=2) + "\n")
    fresh.replace(path)


def pi_command(program: PiProgram, settings: Settings, session: Path, instructions: Path) -> list[str]:
    """One process for one thread. Nothing is loaded from folders, and no tool is there that was not allowed."""
    tools = ",".join(name.strip() for name in settings.pi_tools.split(",") if name.strip())
    plain = ["extensions", "skills", "prompt-templates", "context-files", "themes", "approve"]
    return [
        *(str(program.node), str(program.script), "--mode", "rpc", "--offline"),
        *("--provider", PROVIDER, "--model", settings.text_model or DEFAULT_MODEL),
        *("--session", str(session), "--system-prompt", str(instructions)),
        *(("--tools", tools) if tools else ("--no-tools",)),
        *(f"--no-{name}" for name in plain),
    ]


def pi_key(settings: Settings) -> bytes:
    """The one secret that pi needs: the key of the endpoint. It is handed over by a descriptor."""
    return (checked_key(settings) or "none").encode()


def pi_environment(config: Path, key: int) -> dict[str, str]:
    """No secret is in it, unless the address of a proxy holds one."""
    own = {"HOME": str(config), "PI_CODING_AGENT_DIR": str(config), KEY_VARIABLE: str(key)}
    quiet = {"PI_OFFLINE": "1", "PI_TELEMETRY": "0", "PI_SKIP_VERSION_CHECK": "1"}
    return {**network_environment(), **own, **quiet}
