"""The objects of one bucket: put, read by range, deleted, listed. Short requests, each tried again for a while.

Every key is used once and every request moves a few megabytes at most, so that a try that is repeated does no harm and
memory is bounded. What the bucket refuses is told in words (`wording.py`).
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import cached_property
from typing import TYPE_CHECKING, NamedTuple
from uuid import uuid4

from pydantic import SecretStr

from mediamill.settings import Settings
from mediamill.storage.contract import StorageAwayError, StoredMissingError
from mediamill.storage.wording import code_of, explain

if TYPE_CHECKING:
    from obstore.store import S3Config, S3Store

LIST_CHUNK = 1_000
PROBE = "mediamill-check"
NO_CONDITIONS = (
    "NotImplemented"  # what a bucket says that knows no `If-None-Match`; others say nothing, and ignore it
)
# An answer that does not come is asked for again for so long; after that whoever asked decides.
CONNECT_SECONDS, REQUEST_SECONDS, INSIST_SECONDS, MOST_TRIES = 5, 60, 20, 8


@dataclass(frozen=True, slots=True)
class BucketPlace:
    """Which bucket, and who we are there."""

    name: str
    url: str | None
    region: str
    prefix: str
    key_id: str | None
    secret: SecretStr | None
    path_style: bool

    @classmethod
    def of(cls, settings: Settings) -> BucketPlace:
        """As the settings say. Keys that are not set are looked for where AWS's own programs do."""
        assert settings.bucket is not None
        return cls(
            settings.bucket,
            settings.bucket_url,
            settings.bucket_region,
            settings.bucket_prefix.strip("/"),
            settings.bucket_key_id,
            settings.bucket_secret,
            settings.bucket_path_style,
        )


class Listed(NamedTuple):
    """An object that is there."""

    key: str
    bytes: int
    changed_at: datetime


def new_key() -> str:
    """One that nothing ever had; the first two letters are the shard in which a sweep finds it."""
    name = uuid4().hex
    return f"{name[:2]}/{name}"


class Objects:
    """See above. The library is imported with the first request."""

    def __init__(self, place: BucketPlace) -> None:
        self.place = place

    async def put(self, key: str, data: bytes) -> None:
        """There as a whole when this returns."""
        import obstore

        with explain(self.place):
            await obstore.put_async(self._store, key, data, use_multipart=False)

    async def put_new(self, key: str, data: bytes) -> None:
        """Only if nothing is there, as the bucket decides; one that cannot takes it anyway. Read what is there then."""
        import obstore
        from obstore.exceptions import AlreadyExistsError

        try:
            with explain(self.place), suppress(AlreadyExistsError):
                await obstore.put_async(self._store, key, data, mode="create", use_multipart=False)
        except StorageAwayError as error:
            if error.__cause__ is None or code_of(error.__cause__) != NO_CONDITIONS:
                raise
            await self.put(key, data)

    async def read(self, key: str, first: int, length: int) -> bytes:
        """So many bytes from there on."""
        import obstore

        try:
            with explain(self.place):
                return bytes(await obstore.get_range_async(self._store, key, start=first, length=length))
        except FileNotFoundError as error:
            raise StoredMissingError(f"the object {key} is not in the bucket") from error

    def read_now(self, key: str, first: int, length: int) -> bytes:
        """As `read`, in a thread."""
        import obstore

        try:
            with explain(self.place):
                return bytes(obstore.get_range(self._store, key, start=first, length=length))
        except FileNotFoundError as error:
            raise StoredMissingError(f"the object {key} is not in the bucket") from error

    async def delete(self, keys: Sequence[str]) -> None:
        """They are gone; it does not matter whether they were there."""
        import obstore

        with explain(self.place):
            await obstore.delete_async(self._store, keys)

    async def list(self, prefix: str) -> AsyncIterator[list[Listed]]:
        """What is below `prefix/`."""
        import obstore

        with explain(self.place):
            async for chunk in obstore.list(self._store, prefix, chunk_size=LIST_CHUNK):
                yield [Listed(one["path"], one["size"], one["last_modified"]) for one in chunk]

    async def examine(self) -> None:
        """Everything that is needed of it, tried once with a small object of its own."""
        key = f"{PROBE}/{uuid4().hex}"
        async for _ in self.list(PROBE):
            pass
        await self.put(key, b"mediamill")
        assert await self.read(key, 0, 9) == b"mediamill"
        await self.delete([key])

    @cached_property
    def _store(self) -> S3Store:
        from obstore.store import S3Store

        place = self.place
        config: S3Config = {
            "region": place.region,
            "virtual_hosted_style_request": not place.path_style,
        }
        if place.url:
            config["endpoint"] = place.url
        if place.key_id:
            config["access_key_id"] = place.key_id
        if place.secret:
            config["secret_access_key"] = place.secret.get_secret_value()
        return S3Store(
            place.name,
            prefix=place.prefix or None,
            config=config,
            client_options={
                "allow_http": bool(place.url and place.url.startswith("http://")),
                "connect_timeout": timedelta(seconds=CONNECT_SECONDS),
                "timeout": timedelta(seconds=REQUEST_SECONDS),
            },
            retry_config={
                "max_retries": MOST_TRIES,
                "retry_timeout": timedelta(seconds=INSIST_SECONDS),
                "backoff": {
                    "init_backoff": timedelta(milliseconds=100),
                    "max_backoff": timedelta(seconds=5),
                    "base": 2,
                },
            },
        )
