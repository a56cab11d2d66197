"""Which model servers the settings name, and what opens each of them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mediamill.processors.models.calls import PLACEHOLDER, ModelServer
from mediamill.processors.models.endpoint import Door, ModelNotSetError, checked_key, checked_url
from mediamill.processors.settings import KEYS

if TYPE_CHECKING:
    from mediamill.settings import Settings


def openai_door(settings: Settings, model_setting: str = "MEDIAMILL_TEXT_MODEL") -> Door:
    """The OpenAI-compatible server. There is no default: media go nowhere that nobody named."""
    if not settings.openai_url:
        raise ModelNotSetError(
            "no OpenAI-compatible endpoint is set", fix="set MEDIAMILL_OPENAI_URL, up to and including /v1"
        )
    return Door(
        settings.openai_url,
        "MEDIAMILL_OPENAI_URL",
        settings.openai_key,
        "MEDIAMILL_OPENAI_KEY",
        model_setting,
    )


def moondream_door(settings: Settings) -> Door:
    """The Moondream server."""
    if not settings.moondream_url:
        raise ModelNotSetError("no Moondream endpoint is set", fix="set MEDIAMILL_MOONDREAM_URL")
    return Door(
        settings.moondream_url,
        "MEDIAMILL_MOONDREAM_URL",
        settings.moondream_key,
        "MEDIAMILL_MOONDREAM_KEY",
        "MEDIAMILL_VISION_MODEL",
        key_header="X-Moondream-Auth",
        key_prefix="",
    )


def gemini_door(settings: Settings) -> Door:
    """Gemini. Its address is known, so the key says that it is wanted."""
    if settings.gemini_key is None:
        raise ModelNotSetError("there is no key for Gemini", fix="set MEDIAMILL_GEMINI_KEY")
    return Door(
        settings.gemini_url,
        "MEDIAMILL_GEMINI_URL",
        settings.gemini_key,
        "MEDIAMILL_GEMINI_KEY",
        "MEDIAMILL_VIDEO_MODEL",
        key_header="x-goog-api-key",
        key_prefix="",
    )


def model_servers(settings: Settings) -> list[ModelServer]:
    """All servers that processors may call. An adapter reports an address or a key that cannot be used."""
    found = []
    for door in (openai_door, moondream_door, gemini_door):
        try:
            named = door(settings)
            url, key = checked_url(named), checked_key(named) or ""
        except ModelNotSetError:
            continue
        found.append(ModelServer(str(url), named.key_header, named.key_prefix, key))
    others = (each.strip() for each in settings.model_servers.split(","))
    return [*found, *(ModelServer(url) for url in others if url)]


def placeholder_keys(settings: Settings) -> dict[str, str]:
    """Environment of a process that decodes: it learns which keys are set, but none of them."""
    keys = {name: getattr(settings, name) for name in KEYS}
    return {
        f"MEDIAMILL_{name}".upper(): _placeholder(key.get_secret_value().strip())
        for name, key in keys.items()
        if key is not None
    }


def _placeholder(key: str) -> str:
    if not key:
        return ""
    # An adapter refuses a key with characters that no key has; the placeholder of such a key has one too.
    return PLACEHOLDER if key.isascii() and key.isprintable() else f"{PLACEHOLDER}…"
