"""The headers that every answer carries: what a browser may do with it, and which doors stay shut."""

from __future__ import annotations

from starlette.datastructures import MutableHeaders

YEAR_SECONDS = 365 * 86_400
# The chat records voice notes, the player plays in the full window or over others; no page needs the rest.
OURS = (
    *("autoplay", "fullscreen", "microphone", "picture-in-picture", "clipboard-write", "screen-wake-lock"),
    *("publickey-credentials-create", "publickey-credentials-get"),  # passkeys
)
NOBODYS = (
    "accelerometer",
    "browsing-topics",
    "camera",
    "display-capture",
    "geolocation",
    "gyroscope",
    "hid",
    "magnetometer",
    "midi",
    "payment",
    "serial",
    "usb",
    "xr-spatial-tracking",
)
HEADERS = {
    "Content-Security-Policy": "default-src 'self'; base-uri 'none'; form-action 'self'; frame-ancestors 'none'; "
    "object-src 'none'",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Permissions-Policy": ", ".join(
        [*(f"{feature}=(self)" for feature in OURS), *(f"{feature}=()" for feature in NOBODYS)]
    ),
    "Cache-Control": "no-cache",
}
HTTPS_ONLY = {"Strict-Transport-Security": f"max-age={YEAR_SECONDS}"}


def add_headers(answer: MutableHeaders, scheme: str) -> None:
    """Those that a route did not set itself; by https, that it stays so."""
    for name, value in (HEADERS | HTTPS_ONLY if scheme == "https" else HEADERS).items():
        answer.setdefault(name, value)
