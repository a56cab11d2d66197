"""The models of this machine on real input: a cat is a cat, text is read, and near is what means the same."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from PIL import Image, ImageDraw, ImageFont

from mediamill.processors.models.contract import Pixels, TextLine
from mediamill.processors.models.image_classes import read_class_words
from mediamill.processors.models.image_objects import SeenObject
from mediamill.processors.models.local_embedder import LocalImageEmbedder
from mediamill.processors.models.local_reader import LocalReader, cut_pieces, in_reading_order, is_sure
from mediamill.processors.models.local_vision import LocalVision, count_objects, rank_tags
from mediamill.processors.result import Tag
from mediamill.settings import Settings

MEDIA = Path(__file__).parent.parent / "media"


def photo(name: str) -> Pixels:
    return np.asarray(Image.open(MEDIA / name).convert("RGB"))


def page(*lines: str, size: tuple[int, int] = (640, 240), left: int = 20) -> Pixels:
    image = Image.new("RGB", size, "white")
    draw, font = ImageDraw.Draw(image), ImageFont.load_default(26)
    for number, line in enumerate(lines):
        draw.text((left, 16 + 42 * number), line, font=font, fill="black")
    return np.asarray(image)


@pytest.fixture(scope="module")
def vision() -> LocalVision:
    return LocalVision(Settings())


@pytest.fixture(scope="module")
def reader() -> LocalReader:
    return LocalReader(Settings())


@pytest.fixture(scope="module")
def embedder() -> LocalImageEmbedder:
    return LocalImageEmbedder(Settings())


@pytest.mark.spec("C26", "L6")
@pytest.mark.parametrize(
    ("name", "wanted"), [("cat.jpg", {"cat", "tabby cat"}), ("coffee.jpg", {"cup", "espresso"})]
)
def test_a_photo_gets_the_right_tags_with_scores_and_models(
    vision: LocalVision, name: str, wanted: set[str]
) -> None:
    sight = vision.look(photo(name))
    sure = {tag.label for tag in sight.tags if tag.score >= 0.4}
    assert wanted <= sure
    assert all(0.05 <= tag.score <= 1 for tag in sight.tags)
    assert {tag.model for tag in sight.tags} <= set(sight.models)
    assert all("@" in model for model in sight.models)


def test_the_surest_tag_of_both_models_comes_first_and_a_label_comes_once() -> None:
    objects = [Tag("giraffe", 0.6, "objects@1"), Tag("dog", 0.58, "objects@1")]
    classes = [
        Tag("dog", 0.97, "classes@1"),
        Tag("dalmatian", 0.9, "classes@1"),
        Tag("Great Dane", 0.06, "classes@1"),
    ]
    assert rank_tags([*objects, *classes]) == [classes[0], classes[1], objects[0], classes[2]]


@pytest.mark.parametrize("shape", [(1, 1), (1, 3000), (3000, 1), (7, 5)])
def test_odd_shapes_are_looked_at_without_a_fault(vision: LocalVision, shape: tuple[int, int]) -> None:
    assert all(tag.score <= 1 for tag in vision.look(np.zeros((*shape, 3), np.uint8)).tags)


def test_objects_are_counted_in_words() -> None:
    seen = [
        SeenObject("person", 0.9),
        SeenObject("bus", 0.8),
        SeenObject("person", 0.7),
        SeenObject("tv", 0.6),
    ]
    told = [(tag.label, tag.score) for tag in count_objects(seen, "m@1")]
    assert told == [("2 people", 0.9), ("bus", 0.8), ("television", 0.6)]


def test_there_is_a_word_for_every_class() -> None:
    words = read_class_words()
    assert len(words) == 1000
    assert all(word.label.strip() == word.label and word.label and word.group for word in words)
    assert (words[207].label, words[207].group) == ("golden retriever", "dog")


@pytest.mark.spec("C26")
def test_text_is_read_line_by_line(reader: LocalReader) -> None:
    lines = ("Invoice No. 2026-114", "Total amount: 1,284.50 EUR", "Please pay by 30 November")
    found = reader.read(page(*lines))
    assert [line.text for line in found] == list(lines)
    assert all(line.score >= 0.8 for line in found)
    assert [line.box[1] for line in found] == sorted(line.box[1] for line in found)


def test_a_long_screenshot_is_read_in_pieces_each_line_once(reader: LocalReader) -> None:
    lines = [f"message {number} of the chat" for number in range(28)]
    found = reader.read(page(*lines, size=(420, 1200)))
    assert [line.text for line in found] == lines


def test_a_photo_without_text_has_none(reader: LocalReader) -> None:
    assert reader.read(photo("cat.jpg")) == []


@pytest.mark.parametrize("shape", [(1, 1), (2, 4000), (4000, 2)])
def test_slender_images_are_read_in_bounded_memory(reader: LocalReader, shape: tuple[int, int]) -> None:
    assert reader.read(np.full((*shape, 3), 255, np.uint8)) == []


def test_pieces_cover_the_image() -> None:
    pieces = list(cut_pieces(np.zeros((7001, 500, 3), np.uint8)))
    assert 1 < len(pieces) <= 12
    bands = [(first, last) for _, _, first, last in pieces]
    assert bands[0][0] < 0
    assert bands[-1][1] > 7001
    assert all(before[1] > after[0] for before, after in pairwise(bands))
    assert all(
        top <= max(first, 0) and top + len(piece) >= min(last, 7001) for piece, top, first, last in pieces
    )


def test_reading_order_is_by_rows() -> None:
    lines = [
        TextLine("b", 1, (60, 12, 90, 30)),
        TextLine("c", 1, (0, 40, 50, 60)),
        TextLine("a", 1, (0, 10, 50, 30)),
    ]
    assert [line.text for line in in_reading_order(lines)] == ["a", "b", "c"]


def test_what_is_hardly_text_is_left_out() -> None:
    box = (0.0, 0.0, 1.0, 1.0)
    assert is_sure(TextLine("ok", 0.9, box))
    assert not is_sure(TextLine("ok", 0.79, box))
    assert not is_sure(TextLine("— x …", 0.99, box))


@pytest.mark.spec("C26")
def test_the_nearest_sentence_means_the_same(embedder: LocalImageEmbedder) -> None:
    texts = embedder._texts
    kept = texts.embed_texts(
        ["a tabby cat sleeping on a sofa", "invoice from the electricity company", "boarding pass"]
    )
    asked = texts.embed_texts(["kitten on the couch", "power bill", "plane ticket"])
    assert (asked @ kept.T).argmax(axis=1).tolist() == [0, 1, 2]
    assert kept.shape == (3, texts.dimensions)
    assert np.linalg.norm(kept, axis=1) == pytest.approx([1, 1, 1], abs=1e-5)


def test_a_text_has_the_same_vector_alone_and_among_others(embedder: LocalImageEmbedder) -> None:
    texts = ["short", "a much longer text that needs more tokens than the others " * 30, "", "street"]
    together = embedder._texts.embed_texts(texts)
    alone = np.concatenate([embedder._texts.embed_texts([text]) for text in texts])
    assert (together == alone).all()
    assert embedder._texts.embed_texts([]).shape == (0, 384)


@pytest.mark.spec("L6")
def test_images_are_found_by_words(embedder: LocalImageEmbedder) -> None:
    vectors = embedder.embed_images([photo("cat.jpg"), photo("coffee.jpg"), page("some text")])
    for number, query in enumerate(["a kitten", "hot drink", "printed letter"]):
        assert (embedder.embed_query(query) @ vectors.T).argmax() == number
    assert vectors.shape == (3, embedder.dimensions)
    assert "minilm-l6-v2@" in embedder.model
