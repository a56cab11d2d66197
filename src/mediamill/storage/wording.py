"""What is said of a bucket, in one place: why it does not do what it should, and what to mend."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from mediamill.storage.contract import StorageAwayError

if TYPE_CHECKING:
    from mediamill.storage.objects import BucketPlace

_CODE = re.compile(r"<Code>([A-Za-z0-9]{1,60})</Code>")
KEYS = (
    "check MEDIAMILL_BUCKET_KEY_ID and MEDIAMILL_BUCKET_SECRET (or AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY)"
)
RIGHTS = "let the key put, get, list and delete objects there: docs/how-to/buckets.md has the policy"
# By the code that the bucket's answer has: what is wrong, and what to do.
REFUSALS = {
    "NoSuchBucket": (
        "there is no such bucket",
        "make it, or check MEDIAMILL_BUCKET and MEDIAMILL_BUCKET_URL",
    ),
    "InvalidAccessKeyId": ("the key id is not known there", KEYS),
    "SignatureDoesNotMatch": ("the secret does not fit the key id", KEYS),
    "AccessDenied": ("the key may not do that", RIGHTS),
    "RequestTimeTooSkewed": ("the clocks of this machine and of the bucket differ", "set the clock (NTP)"),
    "PermanentRedirect": ("the bucket is in another region", "check MEDIAMILL_BUCKET_REGION"),
    "AuthorizationHeaderMalformed": ("the region is wrong", "check MEDIAMILL_BUCKET_REGION"),
    "QuotaExceeded": ("the bucket is full", "make room there"),
}
AWAY_FIX = "check MEDIAMILL_BUCKET_URL and the network; what waits for it goes on when it is back"


class BucketAwayError(StorageAwayError):
    """The bucket does not answer now."""

    code = "bucket_away"


class BucketRefusedError(StorageAwayError):
    """The bucket refuses what is asked of it."""

    code = "bucket_refused"


@contextmanager
def explain(place: BucketPlace) -> Iterator[None]:
    """What the library raises, as ours: without keys, and never as an OSError, which would be a database's."""
    from obstore.exceptions import BaseError

    try:
        yield
    except (BaseError, OSError) as error:
        if isinstance(error, FileNotFoundError) and code_of(error) != "NoSuchBucket":
            raise
        why, fix = say_why(error)
        kind = BucketAwayError if fix == AWAY_FIX else BucketRefusedError
        raise kind(f"the bucket {place.name}: {why}", fix=fix) from error


def code_of(error: BaseException) -> str | None:
    """What the bucket itself calls it."""
    found = _CODE.search(str(error))
    return found[1] if found else None


def say_why(error: BaseException) -> tuple[str, str]:
    """One line, and what to mend."""
    code = code_of(error)
    if code in REFUSALS:
        return REFUSALS[code]
    text = str(error)
    if (
        "169.254.169.254" in text or "credential" in text.lower()
    ):  # where machines of a cloud are given theirs
        return "there is no key for it", KEYS
    if "403 Forbidden" in text:
        return "it refuses the key", KEYS
    if "404 Not Found" in text:
        return REFUSALS["NoSuchBucket"]
    if code is not None:
        return f"it refuses: {code}", AWAY_FIX
    return "it does not answer", AWAY_FIX
