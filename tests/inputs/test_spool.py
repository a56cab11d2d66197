from __future__ import annotations

import errno
import hashlib
import os
import time
from contextlib import ExitStack
from pathlib import Path

import pytest

from mediamill.errors import MediamillError
from mediamill.inputs.model import MAX_IMAGE_BYTES, ImageBytesError, ImageCountError, ImageTypeError
from mediamill.inputs.spool import EmptyImageError, InputsBusyError, Spool, SpoolError, spool_folder
from tests.inputs.bodies import GIF, PNG
from tests.open_files import open_files

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


@pytest.mark.parametrize(
    ("number", "code"),
    [(errno.ENOSPC, "storage_full"), (errno.EDQUOT, "storage_full"), (errno.EIO, "spool_unavailable")],
)
def test_a_disk_that_fails_while_an_image_is_written_has_its_code(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int, code: str
) -> None:
    def fail(*_: object) -> int:
        raise OSError(number, os.strerror(number))

    with Spool(tmp_path).open_tray() as tray:
        file = tray.begin_image()
        monkeypatch.setattr(os, "write", fail)
        with pytest.raises(MediamillError) as refused:
            file.write(GIF)
        monkeypatch.undo()
    assert refused.value.code == code
    assert refused.value.fix
    assert list(tmp_path.iterdir()) == []


def test_what_the_disk_takes_in_small_pieces_is_whole_all_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write = os.write
    monkeypatch.setattr(os, "write", lambda descriptor, data: write(descriptor, data[:3]))
    with Spool(tmp_path).open_tray() as tray:
        file = tray.begin_image()
        file.write(GIF)
        image = file.finish()
        assert image.path.read_bytes() == GIF
        assert open_files(tmp_path) == []


def test_room_is_taken_in_steps_and_given_back_whatever_was_announced(tmp_path: Path) -> None:
    spool = Spool(tmp_path, limit_bytes=3 * MEGABYTE)

    def is_left(count: int) -> bool:
        try:
            with spool.open_tray(count):
                return True
        except InputsBusyError:
            return False

    with spool.open_tray() as tray:
        assert is_left(3 * MEGABYTE), "nothing is taken yet"
        file = tray.begin_image()
        file.write(b"x")
        assert is_left(2 * MEGABYTE)
        assert not is_left(2 * MEGABYTE + 1)
        file.write(bytes(MEGABYTE - 1))
        assert is_left(2 * MEGABYTE), "it fits in what was taken"
        file.write(bytes(MEGABYTE + 7))
        assert is_left(MEGABYTE - 7)
        assert not is_left(MEGABYTE - 6)
        tray.clear()
        tray.clear()
    assert is_left(3 * MEGABYTE)
    assert not is_left(3 * MEGABYTE + 1)
    with spool.open_tray(5) as tray:
        tray.begin_image().write(b"12345")
        assert is_left(3 * MEGABYTE - 5)
        tray.begin_image().write(b"6")
        assert is_left(2 * MEGABYTE - 5)
        assert not is_left(2 * MEGABYTE - 4)


def test_more_than_a_message_may_have_is_not_reserved_for_it(tmp_path: Path) -> None:
    spool = Spool(tmp_path, limit_bytes=MAX_IMAGE_BYTES)
    with spool.open_tray(10 * MAX_IMAGE_BYTES):
        pass


def test_without_a_wish_there_is_room_for_twenty_full_messages(tmp_path: Path) -> None:
    spool = Spool(tmp_path)
    with ExitStack() as stack:
        for _ in range(20):
            stack.enter_context(spool.open_tray(MAX_IMAGE_BYTES))
        with pytest.raises(InputsBusyError) as busy:
            stack.enter_context(spool.open_tray(1))
    assert (busy.value.code, busy.value.fix) == ("inputs_busy", "try again in a moment")


def test_names_of_files_cannot_be_guessed(tmp_path: Path) -> None:
    with Spool(tmp_path).open_tray() as tray:
        names = {tray.begin_image().path.name for _ in range(5)}
    assert len(names) == 5
    assert {len(bytes.fromhex(name)) for name in names} == {16}


def test_an_empty_image_is_refused_as_bytes_that_are_none(tmp_path: Path) -> None:
    with Spool(tmp_path).open_tray() as tray, pytest.raises(EmptyImageError) as refused:
        tray.begin_image().finish()
    assert (refused.value.code, refused.value.fix) == (
        "image_base64_invalid",
        "send the bytes of an image, or leave it out",
    )


def test_a_leftover_of_an_hour_goes_and_a_folder_in_the_way_keeps_nothing(tmp_path: Path) -> None:
    for name, age in (("0-young", 3500), ("1-old", 3700), ("3-old", 9000)):
        (tmp_path / name).write_bytes(GIF)
        os.utime(tmp_path / name, (time.time() - age,) * 2)
    (tmp_path / "2-folder").mkdir()
    os.utime(tmp_path / "2-folder", (0, 0))
    assert Spool(tmp_path).delete_leftovers() == 2
    assert sorted(path.name for path in tmp_path.iterdir()) == ["0-young", "2-folder"]
    assert spool_folder(tmp_path) == tmp_path / "inputs" / "incoming"
