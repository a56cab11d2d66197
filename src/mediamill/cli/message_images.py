"""Looks at the images of a message before anything is sent. The server decides; here it is said sooner, and by name."""

from __future__ import annotations

import errno
from pathlib import Path
from typing import TYPE_CHECKING

from mediamill.cli.faults import SeveralError
from mediamill.cli.terminal import size
from mediamill.errors import InvalidError

if TYPE_CHECKING:
    from mediamill.client import Image

# Other files of people who photograph, which need a change of format first.
CONVERTIBLE = "save it as JPEG or PNG first"


class ImageUnreadableError(InvalidError):
    """There is no image to be read."""

    code = "image_unreadable"


def check_images(paths: list[Path]) -> list[Image]:
    """The images in their order, each with the type that its bytes show."""
    from mediamill.client import Image
    from mediamill.inputs.model import MAX_IMAGE_BYTES, MAX_IMAGES, ImageBytesError, ImageCountError

    if len(paths) > MAX_IMAGES:
        raise ImageCountError(
            f"{len(paths)} images are too many: a message may have {MAX_IMAGES} ({ImageCountError.code})"
        )
    found, refused = [], []
    for path in paths:
        try:
            found.append(_look(path))
        except InvalidError as error:
            refused.append(error)
    if refused:
        raise refused[0] if len(refused) == 1 else SeveralError([error.message for error in refused])
    total = sum(byte_size for _, byte_size in found)
    if total > MAX_IMAGE_BYTES:
        raise ImageBytesError(
            f"the images have {size(total)}: a message may have {size(MAX_IMAGE_BYTES)} ({ImageBytesError.code})"
        )
    return [Image(path, mime_type) for path, (mime_type, _) in zip(paths, found, strict=True)]


def _look(path: Path) -> tuple[str, int]:
    """Its type and size."""
    from mediamill.inputs.model import MIME_TYPES, ImageTypeError
    from mediamill.media.peek import open_regular
    from mediamill.media.sniff import UNKNOWN, sniff_file

    if path.is_dir():
        raise ImageUnreadableError(f"{path} is a folder", fix="name each image in it with its own -i")
    try:
        with open_regular(path) as file:
            mime_type, byte_size = sniff_file(file).mime_type, file.seek(0, 2)
    except OSError as error:
        raise _unreadable(path, error) from None
    if byte_size == 0:
        raise ImageUnreadableError(f"{path} is empty")
    if mime_type not in MIME_TYPES:
        what = "of no known type" if mime_type == UNKNOWN else mime_type
        fix = CONVERTIBLE if mime_type.startswith("image/") else None
        raise ImageTypeError(f"{path} is {what}, no JPEG, PNG, WebP or GIF ({ImageTypeError.code})", fix=fix)
    return mime_type, byte_size


def _unreadable(path: Path, error: OSError) -> ImageUnreadableError:
    if error.errno == errno.ENOENT:
        return ImageUnreadableError(f"there is no file {path}")
    return ImageUnreadableError(f"cannot read {path}: {error.strerror}")
