"""The tagger of libraries: real models on real previews, and only on previews."""

from __future__ import annotations

import base64
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image, ImageDraw, ImageFont

from mediamill.media.errors import MediaError
from mediamill.processors.contract import ProcessorInput
from mediamill.processors.library.meaning import meaning_of
from mediamill.processors.library.tag import (
    TOLD_AT_ONCE,
    BadTagRequestError,
    LibraryTagger,
    OtherModelError,
)
from mediamill.processors.models import choose
from mediamill.processors.models.contract import Pixels
from mediamill.processors.models.image_classes import Shares
from mediamill.processors.models.local_eyes import local_eyes
from mediamill.processors.models.names import look_name, reader_name, text_name, vision_name
from mediamill.processors.models.packed import pack_vectors
from mediamill.settings import Settings
from mediamill.testing.openai_server import OpenAiServer

CAT = Path(__file__).parents[2] / "media" / "cat.jpg"
Told = list[tuple[Any, ...]]


@pytest.fixture(scope="module")
def tagger() -> LibraryTagger:
    return LibraryTagger((), 60)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """The output of an asset: a cat, and two scenes, one with words."""
    output = tmp_path / "7-1-1"
    output.mkdir()
    Image.open(CAT).save(output / "preview.webp")
    Image.open(CAT).save(output / "scene-00001.jpg")
    page = Image.new("RGB", (640, 360), "white")
    ImageDraw.Draw(page).text((40, 120), "HARBOUR OFFICE", font=ImageFont.load_default(48), fill="black")
    page.save(output / "scene-00002.jpg")
    return output


def payload(looks: list[dict[str, Any]], **more: Any) -> dict[str, Any]:
    settings = Settings()
    models = {
        "tagger": vision_name(settings),
        "text_model": text_name(settings),
        "look_model": look_name(settings),
    }
    named = {task: {"id": 1, "name": model.name, "engine": model.engine} for task, model in models.items()}
    return {**named, "looks": looks, **more}


def look(file: str, of: str = "scene", id_: int = 1) -> dict[str, Any]:
    return {"of": of, "id": id_, "file": file}


def run(
    tagger: LibraryTagger, folder: Path, given: Mapping[str, Any], checkpoint: Any = None
) -> tuple[list[dict[str, Any]], Told]:
    told: Told = []
    scratch = folder.parent / "scratch"
    inputs = ProcessorInput(given, None, folder, scratch, checkpoint, 1, lambda *one, **_: told.append(one))
    return list(tagger.process(inputs).result["looks"]), told


def numbers(packed: str) -> Any:
    return np.frombuffer(base64.b64decode(packed), "<f2").astype(np.float32)


@pytest.mark.spec("L10")
def test_a_cat_is_tagged_with_both_vectors_and_the_models_that_saw_it(
    tagger: LibraryTagger, folder: Path
) -> None:
    (seen,), _ = run(tagger, folder, payload([look("preview.webp", "asset", 7)]))
    assert (seen["of"], seen["id"], seen["description"], seen["text"]) == ("asset", 7, None, None)
    assert "cat" in {tag["label"] for tag in seen["tags"] if tag["score"] > 0.4}
    for name in ("meaning", "look"):
        assert numbers(seen[name]).shape == (384,)
        assert np.linalg.norm(numbers(seen[name])) == pytest.approx(1, abs=0.01)
    assert set(seen["models"]) == set(vision_name(Settings()).name.split("+"))


@pytest.mark.spec("L10")
def test_words_in_a_scene_are_read_and_another_scene_is_not_disturbed(
    tagger: LibraryTagger, folder: Path
) -> None:
    looks = [look("scene-00001.jpg", id_=1), look("scene-00002.jpg", id_=2)]
    (first, second), _ = run(tagger, folder, payload(looks))
    assert first["text"] is None
    assert "HARBOUR OFFICE" in second["text"]
    assert any("pp-ocr" in model for model in second["models"])


def test_reading_can_be_switched_off(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MEDIAMILL_LIBRARY_READ_TEXT", "false")
    (seen,), _ = run(LibraryTagger((), 60), folder, payload([look("scene-00002.jpg")]))
    assert seen["text"] is None


@pytest.mark.spec("L10")
def test_what_is_done_is_told_every_few_looks_and_not_done_again(tagger: LibraryTagger, folder: Path) -> None:
    looks = [look("scene-00001.jpg", id_=number) for number in range(1, 2 * TOLD_AT_ONCE + 3)]
    all_of_them, told = run(tagger, folder, payload(looks))
    assert [one["id"] for one in all_of_them] == [one["id"] for one in looks]
    assert [len(parts["looks"]) for _, _, parts, _ in told] == [TOLD_AT_ONCE, TOLD_AT_ONCE]
    checkpoint = told[0][3]
    left, _ = run(tagger, folder, payload(looks), checkpoint)
    assert [one["id"] for one in left] == [one["id"] for one in looks[TOLD_AT_ONCE:]]
    nothing, _ = run(tagger, folder, payload(looks), {"done": [*range(len(looks)), -1, 999, "x"]})
    assert nothing == []


@pytest.mark.parametrize(
    "file", ["../preview.webp", "/etc/passwd", "clip.mp4", "preview.webp\n", "a/preview.webp", ""]
)
def test_no_path_leaves_the_folder(tagger: LibraryTagger, folder: Path, file: str) -> None:
    with pytest.raises(BadTagRequestError):
        run(tagger, folder, payload([look(file)]))


def test_a_frame_that_is_damaged_or_missing_is_told_unless_it_is_all_there_is(
    tagger: LibraryTagger, folder: Path
) -> None:
    (folder / "scene-00003.jpg").write_bytes(b"no image")
    looks = [look("scene-00003.jpg", id_=3), look("scene-00009.jpg", id_=9), look("scene-00001.jpg", id_=1)]
    damaged, missing, good = run(tagger, folder, payload(looks))[0]
    assert damaged["error"]
    assert missing["error"]
    assert good["tags"]
    for alone in looks[:2]:
        with pytest.raises(MediaError):
            run(tagger, folder, payload([alone]))
    with pytest.raises(MediaError, match="not there"):
        run(tagger, folder / "gone", payload(looks))


@pytest.mark.spec("L11")
def test_a_worker_with_other_models_leaves_the_job_to_another_and_says_what_it_has(
    tagger: LibraryTagger, folder: Path
) -> None:
    for which in ("tagger", "text_model", "look_model"):
        other = {which: {"id": 1, "name": "somebody@2", "engine": "local"}}
        with pytest.raises(OtherModelError, match=r"somebody@2.*this worker has"):
            run(tagger, folder, payload([look("preview.webp")], **other))
    with pytest.raises(OtherModelError, match="cannot tag"):  # no such endpoint is set here
        run(
            tagger,
            folder,
            payload([look("preview.webp")], tagger={"id": 1, "name": "openai:x", "engine": "openai"}),
        )


@pytest.mark.spec("L11")
def test_a_tagger_beyond_the_machine_is_asked_by_name_and_each_answer_is_told_at_once(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with OpenAiServer() as server:
        monkeypatch.setenv("MEDIAMILL_OPENAI_URL", f"{server.url}/v1")
        tagger = LibraryTagger((), 60)
        assert tagger.network
        asked = {"id": 1, "name": "openai:gpt-x", "engine": "openai"}
        looks = [look("scene-00001.jpg", id_=1), look("scene-00002.jpg", id_=2)]
        seen, told = run(tagger, folder, payload(looks, tagger=asked))
    assert {one.json()["model"] for one in server.seen} == {"gpt-x"}
    assert all(one["description"] for one in seen)
    assert all("gpt-x" in one["models"][0] for one in seen)
    assert len(told) == 1
    assert len(told[0][2]["looks"]) == 1


def test_without_endpoints_the_tagger_needs_no_network(tagger: LibraryTagger) -> None:
    assert not tagger.network


@pytest.mark.parametrize("looks", [[], None, [{"of": "asset"}], [None], [look("preview.webp")] * 201])
def test_a_payload_that_makes_no_sense_is_refused(tagger: LibraryTagger, folder: Path, looks: Any) -> None:
    with pytest.raises(BadTagRequestError):
        run(tagger, folder, payload(looks))


def test_both_local_models_look_once_for_tags_and_vector(
    tagger: LibraryTagger, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    classes, looked = local_eyes(Settings().processor_threads).classes, []
    classify = classes.classify

    def count(pixels: Pixels) -> Shares:
        looked.append(pixels.shape)
        return classify(pixels)

    monkeypatch.setattr(classes, "classify", count)
    run(tagger, folder, payload([look("scene-00001.jpg"), look("scene-00002.jpg", id_=2)]))
    assert len(looked) == 2


@pytest.mark.spec("L11")
def test_what_was_seen_before_is_only_embedded_and_not_even_opened_for_its_meaning(
    tagger: LibraryTagger, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole, _ = run(tagger, folder, payload([look("scene-00001.jpg")]))
    text = meaning_of(whole[0]["description"], whole[0]["tags"], whole[0]["text"])
    monkeypatch.setattr(tagger, "_vision", None)  # nobody is there to look
    known = {"known": text, "wants": ["look"]}
    told, _ = run(tagger, folder, payload([{**look("scene-00001.jpg"), **known}]))
    assert told == [{"of": "scene", "id": 1, "look": whole[0]["look"]}]
    (folder / "scene-00001.jpg").unlink()
    known = {"known": text, "wants": ["meaning"]}
    told, _ = run(tagger, folder, payload([{**look("scene-00001.jpg"), **known}]))
    assert told == [{"of": "scene", "id": 1, "meaning": whole[0]["meaning"]}]
    told, _ = run(tagger, folder, payload([{**look("scene-00001.jpg"), "known": "", "wants": ["meaning"]}]))
    assert told == [{"of": "scene", "id": 1}]


@pytest.mark.spec("L24")
def test_text_is_read_in_what_is_known_otherwise_and_nobody_looks_again(folder: Path) -> None:
    tagger = LibraryTagger((), 60)
    named = reader_name(Settings())
    assert named is not None
    reader = {"id": 5, "name": named.name}
    known = {**look("scene-00002.jpg"), "known": "a sign", "wants": ["read", "meaning"]}

    (found,), _ = run(tagger, folder, payload([known], reader=reader))

    assert "HARBOUR OFFICE" in found["text"]
    assert {"description", "tags", "look"}.isdisjoint(found)
    alike = numbers(found["meaning"]) @ numbers(vector_of(f"a sign. {found['text']}"))
    assert alike > 0.99
    assert "text" not in run(tagger, folder, payload([{**known, "wants": ["meaning"]}], reader=None))[0][0]
    with pytest.raises(OtherModelError):
        run(tagger, folder, payload([known], reader={"id": 5, "name": "another reader"}))


def vector_of(text: str) -> str:
    (vector,) = pack_vectors(choose.text_embedder().embed_texts([text]))
    return vector
