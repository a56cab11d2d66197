"""An image as a data URL, small enough for any model server."""

from __future__ import annotations

import base64

from mediamill.processors.models.contract import Pixels

LONGEST_SIDE = 1568  # what large vision models look at; more is only sent and thrown away
QUALITY = 85


def jpeg_data_url(pixels: Pixels) -> str:
    """The image as JPEG, never enlarged."""
    import pyvips

    image = pyvips.Image.new_from_array(pixels)
    image = image.thumbnail_image(LONGEST_SIDE, height=LONGEST_SIDE, size="down")
    jpeg: bytes = image.jpegsave_buffer(Q=QUALITY, keep="none")
    return "data:image/jpeg;base64," + base64.b64encode(jpeg).decode("ascii")
