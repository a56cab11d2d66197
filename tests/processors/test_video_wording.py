import pytest

from mediamill.processors.models.contract import Segment, Sight, Transcript
from mediamill.processors.result import Tag
from mediamill.processors.video.wording import MOST_TEXT_CHARACTERS, Told, VideoStory, describe_video
from tests.processors.seeing import lines

pytestmark = pytest.mark.spec("C26")


def sight(**scores: float) -> Sight:
    return Sight(tuple(Tag(label, score, "m@1") for label, score in scores.items()))


def speech(*texts: str, language: str | None = "en", seconds: float = 42.0) -> Transcript:
    segments = tuple(Segment(float(number), number + 1.0, text) for number, text in enumerate(texts))
    return Transcript(segments, language, 0.9, seconds, float(len(texts)), "speech@1")


def test_a_video_is_told_with_its_times() -> None:
    story = VideoStory(
        42.4,
        1280,
        720,
        scene_count=2,
        moments=[
            Told(0, 14.2, sight(street=0.8, bus=0.5, tram=0.2), lines("STOP")),
            Told(14.2, 42.4, Sight(description="A man\nwaves.")),
        ],
        has_sound=True,
        transcript=speech("Hello.", "How are you?"),
    )
    assert describe_video(story) == (
        "Video, 0:42, 1280×720, 2 scenes.\n"
        "[0:00–0:14] probably: street, bus; perhaps: tram; text: STOP\n"
        "[0:14–0:42] A man waves.\n"
        "Speech (English): Hello. How are you?"
    )


def test_scenes_that_look_the_same_share_a_line() -> None:
    moments = [Told(0, 30, sight(cat=0.9)), Told(30, 60, sight(cat=0.9)), Told(60, 70, sight(dog=0.9))]
    told = describe_video(VideoStory(70, 640, 360, 3, moments))
    assert "[0:00–1:00] probably: cat\n[1:00–1:10] probably: dog" in told


def test_text_that_stays_on_the_screen_is_told_once() -> None:
    moments = [Told(0, 5, sight(cat=0.9), lines("NEWS")), Told(5, 9, sight(dog=0.9), lines("NEWS"))]
    assert describe_video(VideoStory(9, 640, 360, 2, moments)).count("NEWS") == 1


def test_single_frames_of_a_long_video_are_told_one_by_one() -> None:
    moments = [Told(300, 300, sight(cat=0.9)), Told(900, 900, sight(cat=0.9))]
    told = describe_video(VideoStory(7200, 640, 360, None, moments))
    assert told.startswith("Video, 2:00:00, 640×360, 2 sampled frames.\n[5:00] probably: cat\n[15:00] ")


def test_long_text_in_a_frame_is_cut() -> None:
    told = describe_video(VideoStory(9, 640, 360, 1, [Told(0, 9, Sight(), lines("word " * 500))]))
    assert len(told) < MOST_TEXT_CHARACTERS + 100
    assert "…" in told


def test_what_is_missing_is_said() -> None:
    assert "Without sound." in describe_video(VideoStory(5, 64, 48, 1))
    silent = VideoStory(5, 64, 48, 1, has_sound=True, transcript=speech())
    assert "No speech." in describe_video(silent)
    assert "nothing was recognised" in describe_video(VideoStory(5, 64, 48, 1, [Told(0, 5, Sight())]))
    torn = VideoStory(5, picture_trouble="it is torn", has_sound=True, sound_trouble="it is torn too")
    assert "(Its pictures cannot be shown: it is torn.)" in describe_video(torn)
    assert "(Its sound cannot be heard: it is torn too.)" in describe_video(torn)


def test_speech_that_was_not_heard_to_its_end_says_how_far() -> None:
    story = VideoStory(9000, 64, 48, 1, has_sound=True, transcript=speech("Hi.", language="de"))
    cut = VideoStory(9000, 64, 48, 1, has_sound=True, transcript=story.transcript, heard_until_seconds=1500)
    assert "Speech (German): Hi." in describe_video(story)
    assert "Speech (German, up to 25:00): Hi." in describe_video(cut)
