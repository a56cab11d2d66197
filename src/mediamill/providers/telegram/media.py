"""Files for the media path: from Telegram into staging, within the quota."""

from __future__ import annotations

import asyncio
import uuid
from pathlib import Path

from mediamill.conversations.provider import NotConnectedError
from mediamill.errors import GiveUpError, RetryLaterError
from mediamill.providers.telegram.api import BotApi
from mediamill.providers.telegram.files import FileTooLargeError, open_file
from mediamill.providers.telegram.update import MediaFile
from mediamill.staging.put import EmptyUploadError, UploadTooLargeError, drop_staged, put_chunks
from mediamill.staging.quota import StagingRoom, StorageFullError, limit_bytes

FINAL = (GiveUpError, EmptyUploadError, UploadTooLargeError)


class CannotBeHadError(RetryLaterError):
    """A file could not be fetched."""

    code = "file_not_fetched"

    def __init__(self, cause: Exception) -> None:
        super().__init__(str(cause) or type(cause).__name__)
        self.cause = cause

    @property
    def is_final(self) -> bool:
        """No other try would help."""
        return isinstance(self.cause, FINAL)

    @property
    def is_too_large(self) -> bool:
        """The sender can send a smaller one."""
        return isinstance(self.cause, FileTooLargeError | UploadTooLargeError)

    @property
    def is_quota(self) -> bool:
        """There was no room."""
        return isinstance(self.cause, StorageFullError)


class MediaStager:
    """Of one bot."""

    def __init__(
        self,
        api: BotApi,
        data_folder: Path,
        room: StagingRoom,
        *,
        quota_gb: float,
        file_limit_bytes: int,
        shared_folder: Path | None,
    ) -> None:
        self._api, self._data_folder, self._room = api, data_folder, room
        self._file_limit_bytes, self._shared_folder = file_limit_bytes, shared_folder
        self.change_quota(quota_gb)

    def change_quota(self, quota_gb: float) -> None:
        """For the files from now on."""
        self._quota_bytes = limit_bytes(quota_gb)

    async def stage(self, file: MediaFile) -> str:
        """The guid of the staged file: another one for each try, so that a half one of before is in nobody's way."""
        guid = str(uuid.uuid4())
        try:
            async with open_file(self._api, file.file_id, self._shared_folder) as (chunks, announced):
                await put_chunks(
                    self._data_folder,
                    guid,
                    chunks,
                    self._room,
                    quota_bytes=self._quota_bytes,
                    limit_bytes=self._file_limit_bytes,
                    announced_bytes=announced,
                )
        except (NotConnectedError, StorageFullError, *FINAL) as error:
            raise CannotBeHadError(error) from error
        return guid

    async def drop(self, guid: str) -> None:
        """It is not needed after all."""
        await asyncio.to_thread(drop_staged, self._data_folder, guid)
