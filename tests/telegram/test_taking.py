"""What people send to a bot on Telegram: texts, images, albums, files, commands; and what becomes of it."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from mediamill.conversations.configuration import QUOTA, set_value
from mediamill.inputs import counters
from mediamill.staging import staging_folder
from mediamill.testing.model_server import RESET
from mediamill.testing.telegram_server import ANN, told_error
from tests.telegram.grounds import AGENT, Ground, png

GROUP = -100_500
SAVED_2 = "Saved 2 images. Send text instructions."
ECHO = {"by": "echo"}


@pytest.mark.spec("I8")
async def test_a_text_is_a_message_and_a_run_whose_answer_is_sent_once(ground: Ground) -> None:
    await ground.run()
    number = ground.telegram.say("hello")
    await ground.until_taken()
    assert await ground.runs() == [("hello", [])]
    choice = await ground.one("select agent::text from runs")
    assert '"openai"' in choice
    assert '"special"' in choice
    assert "Be brief." in choice
    await ground.until(lambda: "typing" in ground.telegram.actions)
    await ground.answer_runs()
    await ground.until_texts("answer to hello")
    await ground.until_row("select count(*) = 2 from queues")
    stored = await ground.rows(
        "select source, content, sender ->> 'display_name', provider_message_id from queues"
    )
    assert ("user", "hello", "Ann", str(number)) in stored


@pytest.mark.spec("I5", "I8")
async def test_an_album_waits_with_one_acknowledgement_for_the_next_text(ground: Ground) -> None:
    await ground.create()
    ground.telegram.send_album([png(1), png(2)])
    ground.begin()
    await ground.until_texts(SAVED_2)
    assert await ground.pending() == [png(1), png(2)]
    ground.telegram.say("describe these")
    await ground.until_taken()
    assert await ground.runs() == [("describe these", [png(1), png(2)])]
    assert await ground.pending() == []
    await ground.answer_runs()
    await ground.until_texts(SAVED_2, "answer to describe these")


@pytest.mark.spec("I8")
async def test_an_album_that_comes_in_pieces_has_its_acknowledgement_edited(ground: Ground) -> None:
    await ground.run()
    album = ground.telegram.new_album()
    ground.telegram.send_photo(png(1), album=album)
    await ground.until_texts("Saved 1 image. Send text instructions.")
    ground.telegram.send_photo(png(2), album=album)
    await ground.until_texts(SAVED_2)
    ground.telegram.send_photo(png(3))
    await ground.until_texts(SAVED_2, "Saved 1 image (3 in all). Send text instructions.")
    assert len(ground.telegram.edits) == 1


@pytest.mark.spec("I5", "I8")
async def test_the_images_of_an_album_keep_the_order_in_which_they_were_sent(ground: Ground) -> None:
    await ground.create()
    album = ground.telegram.new_album()
    for number in (903, 901, 902):
        file = ground.telegram.put_file(png(number))
        photo = [{"file_id": file, "width": 9, "height": 9}]
        ground.telegram.write({"photo": photo, "media_group_id": album}, message_id=number)
    ground.begin()
    await ground.until_texts("Saved 3 images. Send text instructions.")
    assert await ground.pending() == [png(901), png(902), png(903)]


@pytest.mark.spec("I8")
async def test_a_caption_is_the_text_and_the_whole_album_goes_with_it(ground: Ground) -> None:
    await ground.create()
    ground.telegram.send_album([png(1), png(2), png(3)], caption="what are these?")
    ground.begin()
    await ground.until_taken()
    assert await ground.runs() == [("what are these?", [png(1), png(2), png(3)])]
    assert await ground.messages() == ["what are these?"]
    assert ground.telegram.texts() == []


@pytest.mark.spec("I8")
async def test_an_albums_late_images_go_with_its_run_until_that_begins(ground: Ground) -> None:
    await ground.run()
    album = ground.telegram.new_album()
    ground.telegram.send_photo(png(1), album=album, caption="look")
    await ground.until_taken()
    wait = "select extract(epoch from start_after - created_at) from runs"
    assert 1.5 < await ground.one(wait) < 2.5
    ground.telegram.send_photo(png(2), album=album)
    await ground.until_taken()
    assert await ground.runs() == [("look", [png(1), png(2)])]
    assert ground.telegram.texts() == []
    await ground.one("update runs set state = 'running', tries = 1")
    ground.telegram.send_photo(png(3), album=album)
    await ground.until_texts("Saved 1 image. Send text instructions.")
    assert await ground.pending() == [png(3)]


@pytest.mark.spec("I8")
async def test_a_photo_with_a_caption_begins_at_once_with_those_that_waited(ground: Ground) -> None:
    await ground.run()
    ground.telegram.send_photo(png(1))
    ground.telegram.send_photo(png(2), caption="and this")
    await ground.until_taken()
    assert await ground.runs() == [("and this", [png(1), png(2)])]
    assert await ground.one("select start_after <= created_at from runs")


@pytest.mark.spec("I8")
async def test_an_image_that_comes_as_a_document_is_one(ground: Ground) -> None:
    await ground.run()
    ground.telegram.send_file("document", png(1), mime_type="image/png", file_name="a.png")
    await ground.until_texts("Saved 1 image. Send text instructions.")
    assert await ground.rows("select mime_type, filename from input_images") == [("image/png", "a.png")]


@pytest.mark.spec("I2", "I8")
async def test_more_than_ten_images_are_refused_by_code_and_can_be_forgotten(ground: Ground) -> None:
    before = counters.rejects.copy()
    await ground.create()
    ground.telegram.send_album([png(number) for number in range(12)])
    ground.begin()
    await ground.until_taken()
    (said,) = ground.telegram.texts()
    assert said.startswith("Saved 10 images. Send text instructions.\n2 images not saved")
    assert "image_buffer_limit_exceeded" in said
    assert counters.rejects - before == {("image_buffer_limit_exceeded", "telegram"): 2}
    assert len(await ground.pending()) == 10
    ground.telegram.say("/forget")
    await ground.until_texts(said, "10 images forgotten.")
    assert await ground.pending() == []
    ground.telegram.say("/forget")
    await ground.until_texts(said, "10 images forgotten.", "No images are waiting.")
    assert await ground.runs() == []


@pytest.mark.spec("I2", "I7", "I11")
async def test_a_document_that_only_claims_to_be_an_image_is_refused_by_code_and_its_caption_taken(
    ground: Ground, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO", "mediamill.inputs.counters")
    before = counters.rejects.copy()
    await ground.run()
    await ground.one(
        "insert into input_images (source, thread_key, mime_type, byte_size, image_bytes, position, expires_at) "
        "values ('api', 'old', 'image/png', 1, 'x', 0, now())"
    )
    ground.telegram.send_file("document", b"MZ no image", mime_type="image/png")
    await ground.until_taken()
    assert await ground.one("select count(*) from input_images") == 0, "what has expired goes first"
    ground.telegram.send_file("document", b"MZ no image", mime_type="image/png", caption="see")
    await ground.until_taken()
    assert await ground.runs() == [("see", [])]
    said, again = ground.telegram.texts()
    assert (
        said
        == again
        == "1 image not saved: The image is no JPEG, PNG, WebP or GIF (image_mime_type_unsupported)."
    )
    assert counters.rejects - before == {("image_mime_type_unsupported", "telegram"): 2}
    assert "thread_key='bot/telegram/7001' code=image_mime_type_unsupported" in caplog.text


@pytest.mark.spec("I15")
async def test_images_that_are_turned_off_are_refused_by_code_and_texts_are_taken(ground: Ground) -> None:
    ground.app = replace(ground.app, settings=ground.app.settings.model_copy(update={"image_input": False}))
    await ground.run()
    ground.telegram.send_photo(png(1), caption="look")
    await ground.until_taken()
    assert await ground.runs() == [("look", [])]
    (said,) = ground.telegram.texts()
    assert said == "1 image not saved: Images are turned off here (image_input_disabled)."
    assert "getFile" not in [name for name, _ in ground.telegram.calls]


@pytest.mark.spec("I8")
async def test_images_of_two_people_in_a_group_go_with_their_own_texts(ground: Ground) -> None:
    ground.access["groups"] = "always"
    await ground.run(AGENT)
    for user in (1, 2):
        file = ground.telegram.put_file(png(user))
        ground.telegram.write({"photo": [{"file_id": file, "width": 9}]}, user=user, group=GROUP)
    ground.telegram.write({"text": "mine"}, user=2, group=GROUP)
    await ground.until_taken()
    assert await ground.runs() == [("mine", [png(2)])]
    assert await ground.pending() == [png(1)]
    assert await ground.one("select is_group from conversations where correspondent_id = $1", str(GROUP))


async def test_without_an_agent_images_take_the_media_path(ground: Ground) -> None:
    await ground.run(ECHO)
    ground.telegram.send_photo(png(1), caption="see")
    await ground.until_taken()
    rows = await ground.rows("select kind, mime_type, payload ->> 'caption' from jobs")
    assert rows == [("message.process", "image/jpeg", "see")]
    assert await ground.pending() == []


@pytest.mark.parametrize(
    ("kind", "facts", "mime_type"),
    [
        ("voice", {}, "audio/ogg"),
        ("audio", {"mime_type": "audio/flac"}, "audio/flac"),
        ("video", {}, "video/mp4"),
        ("video_note", {}, "video/mp4"),
        ("animation", {"file_name": "cat.mp4"}, "video/mp4"),
        ("sticker", {}, "image/webp"),
        ("sticker", {"is_video": True}, "video/webm"),
        ("document", {"mime_type": "application/pdf", "file_name": "../a.pdf"}, "application/pdf"),
    ],
)
@pytest.mark.spec("C2")
async def test_files_are_staged_and_their_texts_awaited(
    ground: Ground, kind: str, facts: dict[str, Any], mime_type: str
) -> None:
    await ground.run()
    ground.telegram.send_file(kind, b"the bytes", caption="see", **facts)
    await ground.until_taken()
    ((found, name, guid),) = await ground.rows(
        "select mime_type, payload ->> 'original_filename', payload ->> 'guid' from jobs"
    )
    assert (found, name) == (mime_type, facts.get("file_name"))
    staged = staging_folder(ground.app.settings.data_folder) / guid
    assert staged.read_bytes() == b"the bytes"


@pytest.mark.spec("I8")
async def test_a_voice_note_makes_its_run_when_its_text_is_there_and_takes_the_images(ground: Ground) -> None:
    await ground.run()
    ground.telegram.send_photo(png(1))
    ground.telegram.send_file("voice", b"the sound")
    await ground.until_taken()
    assert await ground.runs() == []
    await ground.one(
        "with gone as (delete from jobs returning subject_id) update arrivals a set state = 'ready', ready_at = now(), "
        'message = message || \'{"content": "spoken words", "media_processing_id": null}\' from gone '
        "where a.guid = gone.subject_id"
    )
    assert ground.keeper is not None
    await ground.keeper.deliver_once()
    await ground.until(ground.runs)
    assert await ground.runs() == [("spoken words", [png(1)])]
    await ground.answer_runs()
    await ground.until_texts("Saved 1 image. Send text instructions.", "answer to spoken words")


@pytest.mark.spec("C27")
async def test_a_file_that_cannot_be_had_is_told_as_corrupted_after_a_few_tries(ground: Ground) -> None:
    await ground.run()
    ground.telegram.fault("file", *[RESET] * 4)
    ground.telegram.send_file("voice", b"the sound")
    await ground.until_taken()
    assert await ground.rows("select mime_type from jobs") == [("media_corrupt_audio",)]


@pytest.mark.spec("I8")
async def test_a_download_that_fails_twice_is_had_at_the_third_try_and_the_order_is_kept(
    ground: Ground,
) -> None:
    await ground.run()
    ground.telegram.fault("file", RESET, told_error(502))
    ground.telegram.send_photo(png(1))
    ground.telegram.say("look")
    await ground.until_taken()
    assert await ground.runs() == [("look", [png(1)])]


async def test_a_file_that_is_too_large_for_bots_is_told_to_its_sender(ground: Ground) -> None:
    await ground.run()
    ground.telegram.fault("getFile", told_error(400, "Bad Request: file is too big"))
    ground.telegram.send_file("video", b"much")
    await ground.until_taken()
    assert await ground.rows("select mime_type from jobs") == [("media_corrupt_video",)]
    (said,) = ground.telegram.texts()
    assert "20 MB" in said


async def test_other_messages_are_put_into_words_and_what_nobody_said_is_left_out(ground: Ground) -> None:
    await ground.run(ECHO)
    contact = {"first_name": "Bea", "phone_number": "+49 1"}
    ground.telegram.write({"location": {"latitude": 1.5, "longitude": -2}})
    ground.telegram.write({"contact": contact})
    ground.telegram.write({"sticker": {"file_id": "x", "is_animated": True, "emoji": "🙂"}})
    ground.telegram.write({"pinned_message": {}})
    number = ground.telegram.say("yes", reply_to_message={"text": "is it?"})
    ground.telegram.write({"text": "no", "edit_date": 5}, message_id=number, kind="edited_message")
    await ground.until_taken()
    assert await ground.messages() == [
        "[Location: 1.5, -2]",
        "[Contact: Bea; +49 1]",
        "[Sticker: 🙂]",
        "[In reply to: is it?]\nyes",
        "[Edited] no",
    ]


async def test_start_is_greeted_once(ground: Ground) -> None:
    await ground.run()
    ground.telegram.say("/start")
    await ground.until_taken()
    assert len(ground.telegram.texts()) == 1
    assert ground.telegram.texts()[0].startswith("Hello!")
    assert await ground.messages() == []


@pytest.mark.spec("I8")
async def test_an_update_that_comes_twice_is_taken_once(ground: Ground) -> None:
    await ground.run()
    number = ground.telegram.say("hello")
    await ground.until_taken()
    kept = await ground.one("select update_id from telegram_updates")
    ground.telegram.say("again", message_id=number)
    await ground.until(lambda: not ground.telegram.waiting)
    await ground.provider.keep_update(
        {
            "update_id": kept,
            "message": {"message_id": 5, "chat": {"id": ANN, "type": "private"}, "text": "other"},
        }
    )
    await ground.until_taken()
    assert await ground.messages() == ["hello"]
    assert await ground.runs() == [("hello", [])]


async def test_an_update_that_cannot_be_taken_does_not_hold_up_its_chat_for_ever(
    ground: Ground, monkeypatch: pytest.MonkeyPatch
) -> None:
    await ground.run()
    add = ground.provider._context.queues.add_message

    async def fail(chat: str, content: str, **more: object) -> object:
        if content == "poison":
            raise ValueError("bad")
        return await add(chat, content, **more)  # type: ignore[arg-type]

    monkeypatch.setattr(ground.provider._context.queues, "add_message", fail)
    ground.telegram.say("poison")
    ground.telegram.say("good")
    await ground.until_taken()
    assert await ground.messages() == ["good"]
    assert await ground.rows("select state, tries, error from telegram_updates order by 1") == [
        ("done", 0, None),
        ("refused", 3, "bad"),
    ]


@pytest.mark.spec("I8")
async def test_an_answer_that_failed_is_tried_again_on_request(ground: Ground) -> None:
    await ground.run()
    ground.telegram.say("hello")
    await ground.until_taken()
    failing = (
        "with done as (update runs set state = 'failed', error = 'no model' where state = 'queued' returning run_id) "
        "select pg_notify('mediamill_runs', run_id::text) from done"
    )
    await ground.one(failing)
    await ground.until_row("select state = 'failed' from replies")
    assert await ground.one("select error from replies") == "no model"
    await ground.one("update replies set state = 'due', tries = 0")
    assert ground.keeper is not None
    await ground.keeper.keep_once()
    await ground.until_row("select state = 'queued' from runs")
    await ground.answer_runs()
    await ground.until_texts("answer to hello")


@pytest.mark.spec("C21")
async def test_a_changed_quota_counts_from_the_next_file_on_without_a_restart(ground: Ground) -> None:
    folder = staging_folder(ground.app.settings.data_folder)
    folder.mkdir()
    with (folder / "others").open("wb") as file:
        file.truncate(4 * 1024**3)  # sparse

    async def set_quota(gigabytes: int) -> None:
        async with ground.app.database.transaction() as connection:
            await set_value(connection, QUOTA, gigabytes)

    await set_quota(3)
    await ground.run({"by": "echo"})
    before = ground.provider
    ground.telegram.send_file("voice", b"no room")
    await ground.until_row("select count(*) = 1 from jobs where mime_type = 'media_corrupt_audio'")
    await set_quota(25)
    assert ground.keeper is not None
    await ground.keeper.keep_once()
    ground.telegram.send_file("voice", b"the sound")
    await ground.until_row("select count(*) = 1 from jobs where mime_type = 'audio/ogg'")
    assert ground.provider is before
