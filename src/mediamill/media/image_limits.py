"""How large an image may be, known from its header, before a pixel is decoded."""

from __future__ import annotations

import resource

from mediamill.media.errors import MediaTooLargeError

MAX_PIXELS = 300_000_000  # of formats that are decoded row by row
MAX_FRAMES = 60  # of an animation: a later frame costs the decoding of all before it
MEMORY_BYTES = 512 * 1024 * 1024  # for formats that are decoded as a whole


def memory_budget_bytes() -> int:
    """What one image may take: a third of what the process may, since its models are in there too."""
    limit = resource.getrlimit(resource.RLIMIT_DATA)[0]
    return MEMORY_BYTES if limit == resource.RLIM_INFINITY else min(MEMORY_BYTES, limit // 3)


def check_size(what: str, width: int, height: int, bytes_per_pixel: float = 0) -> None:
    """Refuse what would take too much. `bytes_per_pixel`: what the decoder holds at once, 0 if it streams."""
    pixels = width * height
    allowed = MAX_PIXELS
    if bytes_per_pixel:
        allowed = min(allowed, int(memory_budget_bytes() / bytes_per_pixel))
    if pixels > allowed:
        raise MediaTooLargeError(
            f"the {what} has {width} × {height} pixels ({pixels / 1e6:.0f} megapixels); "
            f"at most {allowed / 1e6:.0f} megapixels of this kind are opened"
        )
