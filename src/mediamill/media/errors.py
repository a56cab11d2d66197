"""What can be wrong with a file. All of it is final: the same bytes would fail again."""

from __future__ import annotations

from mediamill.errors import GiveUpError


class MediaError(GiveUpError):
    """The file cannot be used."""

    code = "media_unusable"


class DamagedMediaError(MediaError):
    """The file is damaged."""

    code = "media_damaged"


class EmptyMediaError(MediaError):
    """The file is empty."""

    code = "media_empty"


class MissingMediaError(MediaError):
    """The file is not there."""

    code = "media_missing"


class MediaTooLargeError(MediaError):
    """The file would take more memory, pages or time than is allowed."""

    code = "media_too_large"


class ProtectedMediaError(MediaError):
    """The file is protected by a password."""

    code = "media_protected"


class UnsupportedMediaError(MediaError):
    """Files of this type are not supported."""

    code = "media_unsupported"
