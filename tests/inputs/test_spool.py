from __future__ import annotations

import hashlib
import os
import time
from pathlib import Path

import pytest

from mediamill.inputs.model import MAX_IMAGE_BYTES, ImageBytesError, ImageCountError, ImageTypeError
from mediamill.inputs.spool import InputsBusyError, Spool, SpoolError
from tests.inputs.bodies import GIF, PNG

MEGABYTE = 1024**2


def test_an_image_lies_in_a_file_of_ours_and_is_known_by_its_bytes(tmp_path: Path) -> None:
    folder = tmp_path / "inputs" / "incoming"
    with Spool(folder).open_tray() as tray:
        file = tray.begin_image()
        file.write(PNG[:5])
        file.write(PNG[5:])
        image = file.finish("../../etc/passwd")
        assert (image.mime_type, image.byte_size, image.filename) == (
            "image/png",
            len(PNG),
            "../../etc/passwd",
        )
        assert image.sha256 == hashlib.sha256(PNG).hexdigest()
        assert image.path.read_bytes() == PNG
        assert image.path.parent == folder
        assert image.path.stat().st_mode & 0o777 == 0o600
        assert folder.stat().st_mode & 0o777 == 0o700
    assert not list(folder.iterdir())


def test_whatever_ends_it_the_files_go(tmp_path: Path) -> None:
    for fault in (KeyboardInterrupt, ValueError):
        with pytest.raises(fault), Spool(tmp_path).open_tray() as tray:  # noqa: PT012
            tray.begin_image().write(GIF)
            tray.begin_image()
            assert len(list(tmp_path.iterdir())) == 2
            raise fault
        assert not list(tmp_path.iterdir())


@pytest.mark.spec("I2")
def test_a_message_has_its_limits(tmp_path: Path) -> None:
    with Spool(tmp_path).open_tray() as tray:
        file = tray.begin_image()
        file.write(bytes(MAX_IMAGE_BYTES))
        with pytest.raises(ImageBytesError):
            tray.begin_image().write(b"x")
        with pytest.raises(ImageTypeError):
            file.finish()
        for _ in range(8):
            tray.begin_image()
        with pytest.raises(ImageCountError):
            tray.begin_image()


def test_more_than_there_is_room_for_is_told_to_come_again(tmp_path: Path) -> None:
    spool = Spool(tmp_path, limit_bytes=3 * MEGABYTE)
    with spool.open_tray(2 * MEGABYTE):
        with pytest.raises(InputsBusyError), spool.open_tray(2 * MEGABYTE):
            raise AssertionError("there is no room")
        with spool.open_tray() as unannounced:
            file = unannounced.begin_image()
            file.write(bytes(MEGABYTE))
            with pytest.raises(InputsBusyError):
                file.write(b"x")
        with spool.open_tray(MEGABYTE):
            pass
    with spool.open_tray(3 * MEGABYTE):
        pass


def test_a_folder_that_cannot_be_written_to_is_told_as_such(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("not a folder")
    with (
        Spool(tmp_path / "file" / "incoming").open_tray() as tray,
        pytest.raises(SpoolError, match="Not a directory"),
    ):
        tray.begin_image()


def test_leftovers_of_killed_processes_go_but_not_what_is_being_written(tmp_path: Path) -> None:
    old, new = tmp_path / "old", tmp_path / "new"
    for path in (old, new):
        path.write_bytes(GIF)
    os.utime(old, (time.time() - 7200,) * 2)
    spool = Spool(tmp_path)
    assert spool.delete_leftovers() == 1
    assert [path.name for path in tmp_path.iterdir()] == ["new"]
    assert Spool(tmp_path / "missing").delete_leftovers() == 0
