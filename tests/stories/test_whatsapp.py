"""A bot on WhatsApp from the QR code to the answers: the real bridge with the real Baileys against a loopback WhatsApp,
the real server, database, worker and models."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from tests.crash.processes import Mill, command_of, until_dead, until_files
from tests.stories.whatsapp_story import (
    ANN,
    ANN_LID,
    BEN,
    GROUP,
    SAMPLES,
    Story,
    story_on,
)

PHOTO = ".*espresso.*"
VOICE = "(?i).*ill-disposed young man.*"
VIDEO = "(?i).*3 scenes.*more amiable woman.*"


@pytest.mark.spec("C10", "C20", "C21", "C27", "C30", "C40", "C41", "C42", "C43")
async def test_everything_that_people_send_arrives_once_with_its_text_and_is_answered_once(
    new_url: str, tmp_path: Path
) -> None:
    mill = Mill(tmp_path, new_url)
    started_at = time.monotonic()
    async with story_on(mill, tmp_path, stubs=False) as (story, up):
        await story.pair()
        await story.whatsapp.know(ANN, ANN_LID)
        files = {name: {"file": str(SAMPLES / name)} for name in ("photo.jpg", "voice.ogg", "video.mp4")}
        image, caption = files["photo.jpg"], r"look at this\n\n"

        # A download that fails for good takes three tries; what comes after it does not wait.
        bad = {**image, "faults": {"status": 500}}
        await story.push(
            "image", r"\[Corrupted image media could not be downloaded\] lost", caption="lost", **bad
        )
        third = {**image, "faults": {"status": 500, "fail_times": 2}}
        await story.push("image", r"third time\n\n" + PHOTO, caption="third time", **third)
        await story.push("text", "good morning", text="good morning")
        await story.push("image", caption + PHOTO, caption="look at this", **image)
        await story.push("audio", VOICE, **files["voice.ogg"], mime_type="audio/ogg; codecs=opus")
        await story.push("video", VIDEO, **files["video.mp4"])
        notes = {"file": str(SAMPLES / "notes.docx"), "file_name": "../../notes.docx"}
        docx = "application/vnd.openxmlformats-officedocument.wordprocessingml.document"
        await story.push("document", r"read\n\n.+", caption="read", mime_type=docx, **notes)
        await story.push(
            "sticker", r"Sticker.*cat.*", file=str(SAMPLES / "sticker.webp"), mime_type="image/webp"
        )
        items = [{"kind": "image", **image, "caption": "one"}, {"kind": "image", **image, "caption": "two"}]
        await story.push("album", r"one\n\n" + PHOTO, r"two\n\n" + PHOTO, items=items)
        full = {
            "file": str(SAMPLES / "scan.pdf"),
            "claimed_length": 1_900_000_000,
            "mime_type": "application/pdf",
        }
        await story.push("document", r"\[Corrupted document media could not be downloaded\]", **full)
        await story.push("text", "by my LID", sender=ANN_LID, chat=ANN, text="by my LID")
        group = {"id": GROUP, "subject": "Friends", "participants": [ANN, BEN]}
        await story.push("text", "hello all", sender=BEN, chat=GROUP, group=group, text="hello all")
        await story.push("text", "from Ben", sender=BEN, text="from Ben")
        [twice] = await story.push("text", "once only", sender=BEN, text="once only")
        await story.whatsapp.wait_receipts(story.device, twice)
        await story.whatsapp.redeliver(story.device, twice)
        await story.push(
            "text", "my own words", chat=BEN, sender=None, from_me=True, recipient=BEN, text="my own words"
        )

        await story.until_all_said()
        await story.assert_listed_as_sent(ANN, BEN)
        await story.until_answered(ANN, BEN, GROUP)
        assert not any(one["unreadable"] for one in await story.whatsapp.outbox(story.device))
        await _the_group_is_told_apart(story)
        assert (await story.status())["refused"] == 0
        await until_files(tmp_path / "data" / "pending_media", 0)
        bridge = [child.pid for child in up.children() if "main.mjs" in " ".join(command_of(child))]
        assert len(bridge) == 1
        print(f"the story took {time.monotonic() - started_at:.1f} s")

        up.kill()  # -9: the bridge goes with its server
        await until_dead(*bridge)
    mill.assert_no_traceback()


async def _the_group_is_told_apart(story: Story) -> None:
    [message] = [one for one in await story.stored(GROUP) if one["source"] == "user"]
    assert message["group"] == {"identifier": GROUP, "display_name": "Friends"}
    assert message["sender"]["identifier"] == BEN
