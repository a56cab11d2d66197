"""Video to text: scenes, what is to be seen and read in them, what is said, in one description with times."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from mediamill.media.errors import MediaError, MediaTooLargeError, UnsupportedMediaError
from mediamill.media.frames import Footage
from mediamill.media.probe import MediaFacts, probe
from mediamill.processors.audio.captions import CAPTIONS_FILE, write_captions
from mediamill.processors.image.examine import Eyes, merge_sights
from mediamill.processors.media_processor import BaseMediaProcessor
from mediamill.processors.models import choose
from mediamill.processors.models.contract import Sight, TextReader, VideoModel, VisionModel
from mediamill.processors.result import ProcessingResult
from mediamill.processors.video.attempt import Attempt
from mediamill.processors.video.listen import Speech, listen
from mediamill.processors.video.look import LOOK_SIDE, Look, detail_of, look_at, write_preview
from mediamill.processors.video.scenes import SceneRules
from mediamill.processors.video.watch import MOST_SAVED_SCENES, Moment, Watched, watch
from mediamill.processors.video.wording import Told, VideoStory, describe_video

POSTER_FILE = "poster.jpg"
SCENES_FILE = "scenes.json"
SEGMENTS_FILE = "segments.json"
MOST_SEGMENT_CHARACTERS = 200_000  # in a result; all of them are then in a file


@dataclass(slots=True)
class Pictures:
    """What was found in the pictures; `trouble`: why nothing was."""

    watched: Watched | None = None
    looks: list[tuple[Moment, Look]] = field(default_factory=list)
    previews: dict[float, str] = field(default_factory=dict)  # file names, by the time of the frame
    damage: Mapping[str, object] = field(default_factory=dict)
    trouble: MediaError | None = None


class VideoDescriptionProcessor(BaseMediaProcessor):
    """Derivatives, when the payload asks for `previews`: `poster.jpg`, `scene-01.jpg` …, `captions.vtt`.
    Lists that are too long for a result are in `scenes.json` and `segments.json`."""

    def __init__(
        self,
        mime_types: Sequence[str],
        timeout_seconds: float,
        *,
        vision: VisionModel | None = None,
        reader: TextReader | None = None,
    ) -> None:
        super().__init__(mime_types, timeout_seconds)
        self.eyes = Eyes(vision, reader)
        engines = (self.settings.speech, self.settings.vision, self.settings.video)
        self.network = any(engine not in ("local", "hub") for engine in engines)

    def process_media(
        self, file_path: Path, mime_type: str, caption: str, media_metadata: Mapping[str, Any]
    ) -> ProcessingResult:
        """By a model that takes whole videos if there is one, else by scenes and speech."""
        del media_metadata
        attempt = Attempt(self.given, self.timeout_seconds)
        media = probe(file_path, mime_type)
        model = choose.video_model()
        if model is not None:
            try:
                return self._ask(model, file_path, media, caption)
            except (UnsupportedMediaError, MediaTooLargeError):
                pass  # a file that it does not take is described here
        pictures = self._see(file_path, media, caption, attempt)
        speech = listen(file_path, attempt) if media.has_audio else Speech(has_sound=False)
        if pictures.trouble is not None and (speech.transcript is None):
            raise pictures.trouble
        return self._tell(media, pictures, speech)

    def _ask(self, model: VideoModel, path: Path, media: MediaFacts, caption: str) -> ProcessingResult:
        self.given.report("asking for a description", 10)
        sight = model.watch(path, media.mime_type, caption)
        story = _story(media, Pictures(), Speech(media.has_audio), sight.description)
        return ProcessingResult(
            describe_video(story), tags=sight.tags, models=sight.models, facts=_media_facts(media)
        )

    def _see(self, path: Path, media: MediaFacts, caption: str, attempt: Attempt) -> Pictures:
        """Find the moments and look at each; without pictures, say why."""
        pictures = Pictures()
        try:
            if attempt.watched is None:
                pictures.damage = self._watch(path, media, attempt)
            pictures.watched = attempt.watched
            with Footage(path, media.mime_type, self.settings.processor_threads) as footage:
                self._look(footage, caption, attempt, pictures)
        except MediaError as error:
            pictures.trouble = error
        return pictures

    def _watch(self, path: Path, media: MediaFacts, attempt: Attempt) -> dict[str, Any]:
        """Find the moments, and keep them for the next attempt; what was damaged on the way."""
        # One thread: more would end sooner on an idle machine, but cost a sixth more in all.
        with Footage(path, media.mime_type, rough=True) as footage:
            attempt.watched = watch(
                footage,
                media.duration_seconds,
                attempt.seconds_left("finding scenes"),
                lambda percent: attempt.report("finding scenes", percent),
            )
            attempt.keep("finding scenes", 100)
            return footage.damage.as_facts()

    def _look(self, footage: Footage, caption: str, attempt: Attempt, pictures: Pictures) -> None:
        """Frame by frame, as far as there is time; those of an earlier attempt are known."""
        assert pictures.watched is not None
        moments = pictures.watched.moments()
        wanted, sharpest = bool(self.given.payload.get("previews", False)), -1.0
        for number, moment in enumerate(moments, 1):
            known = attempt.looks.get(moment.at_seconds)
            if pictures.looks and attempt.seconds_left("looking at frames") <= 0:
                return
            picture = footage.picture_at(moment.at_seconds, LOOK_SIDE) if wanted or known is None else None
            if picture is not None and wanted:
                pictures.previews[moment.at_seconds] = name = f"scene-{number:02}.jpg"
                write_preview(picture.pixels, self.given.folder / name)
                if (detail := detail_of(picture.pixels)) > sharpest:
                    sharpest = detail
                    write_preview(picture.pixels, self.given.folder / POSTER_FILE)
            if picture is not None and known is None:
                known = attempt.looks[moment.at_seconds] = look_at(picture.pixels, caption, self.eyes)
                attempt.keep("looking at frames", 100 * number / len(moments))
            if known is not None:
                pictures.looks.append((moment, known))

    def _tell(self, media: MediaFacts, pictures: Pictures, speech: Speech) -> ProcessingResult:
        """Everything together."""
        looks = [look for _, look in pictures.looks]
        models = [model for look in looks for model in look.models]
        files = {name: name for name in pictures.previews.values()}
        if files:
            files[POSTER_FILE] = POSTER_FILE
        facts = {
            **_media_facts(media),
            **self._picture_facts(pictures, files),
            **self._speech_facts(speech, files),
        }
        return ProcessingResult(
            describe_video(_story(media, pictures, speech)),
            tags=merge_sights([look.sight for look in looks]).tags if looks else (),
            models=[*models, speech.transcript.model] if speech.transcript else models,
            facts=facts,
            files=files,
        )

    def _picture_facts(self, pictures: Pictures, files: dict[str, str]) -> dict[str, Any]:
        facts: dict[str, Any] = {
            "moments": [_moment_fact(*each, pictures.previews) for each in pictures.looks]
        }
        if pictures.damage:
            facts["damage"] = dict(pictures.damage)
        if pictures.trouble is not None:
            facts["picture_trouble"] = pictures.trouble.message
        watched = pictures.watched
        if watched is None:
            return facts
        facts["duration_seconds"] = round(watched.end_seconds, 3)
        if watched.scenes is None:
            return {**facts, "sampling": "windows", "frames": [asdict(sample) for sample in watched.samples]}
        scenes = [asdict(scene) for scene in watched.scenes]
        if len(scenes) > MOST_SAVED_SCENES:
            self._write(SCENES_FILE, json.dumps(scenes), files)
            scenes = []
        version = SceneRules().segmentation_version
        return {
            **facts,
            "sampling": "scenes",
            "segmentation_version": version,
            "scene_count": len(watched.scenes),
            "scenes": scenes,
        }

    def _speech_facts(self, speech: Speech, files: dict[str, str]) -> dict[str, Any]:
        if speech.transcript is None:
            return {"sound_trouble": speech.trouble} if speech.trouble else {}
        said = speech.transcript
        segments = [
            {"start": one.start_seconds, "end": one.end_seconds, "text": one.text} for one in said.segments
        ]
        if segments and self.given.payload.get("previews", False):
            self._write(CAPTIONS_FILE, write_captions(said.segments, said.language), files)
        if sum(len(one.text) + 40 for one in said.segments) > MOST_SEGMENT_CHARACTERS:
            self._write(SEGMENTS_FILE, json.dumps(segments, ensure_ascii=False), files)
            segments = []
        facts = {
            "language": said.language,
            "language_score": said.language_score,
            "speech_seconds": round(said.speech_seconds, 2),
            "segments": segments,
        }
        return (
            facts if speech.until_seconds is None else {**facts, "heard_until_seconds": speech.until_seconds}
        )

    def _write(self, name: str, text: str, files: dict[str, str]) -> None:
        (self.given.folder / name).write_text(text, encoding="utf-8", errors="replace")
        files[name] = name


def _story(
    media: MediaFacts, pictures: Pictures, speech: Speech, description: str | None = None
) -> VideoStory:
    watched = pictures.watched
    return VideoStory(
        duration_seconds=watched.end_seconds if watched else media.duration_seconds,
        width=media.video.width if media.video else None,
        height=media.video.height if media.video else None,
        scene_count=len(watched.scenes) if watched and watched.scenes is not None else None,
        moments=[
            Told(moment.start_seconds, moment.end_seconds, look.sight, look.lines)
            for moment, look in pictures.looks
        ],
        description=description,
        has_sound=speech.has_sound,
        transcript=speech.transcript,
        heard_until_seconds=speech.until_seconds,
        picture_trouble=pictures.trouble.message if pictures.trouble else None,
        sound_trouble=speech.trouble,
    )


def _media_facts(media: MediaFacts) -> dict[str, Any]:
    facts: dict[str, Any] = {
        "duration_seconds": media.duration_seconds,
        "container": media.container,
        "tags": dict(media.tags),
    }
    if media.video is not None:
        facts |= asdict(media.video)
    if media.audio is not None:
        facts["audio"] = asdict(media.audio)
    return facts


def _moment_fact(moment: Moment, look: Look, previews: Mapping[float, str]) -> dict[str, Any]:
    sight: Sight = look.sight
    fact = {
        **asdict(moment),
        "tags": [{"label": tag.label, "score": tag.score} for tag in sight.tags],
        "description": sight.description,
        "text_lines": [line.text for line in look.lines],
    }
    return {**fact, "preview": previews[moment.at_seconds]} if moment.at_seconds in previews else fact
