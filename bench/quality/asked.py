"""Searches with their answers: for news by the number of the line, for photos by what is to be seen in them.

Labels were given by looking at each photo and reading each line, before any model was asked.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path

from bench.quality.fetch import Archive, fetch
from bench.quality.reading import SCREENSHOTS
from bench.quality.tagging import CATS_AND_DOGS, IMAGENET, NAMED

NEWS = Archive(
    "gensim",
    "gensim-4.4.0.tar.gz",
    "a3f5b626da5518e79a479140361c663089fe7998df8ba52d56e1ded71ac5bdf5",
    ("gensim/test/test_data/lee.cor",),
)
SCIKIT_IMAGE = Archive(
    "scikit-image",
    "scikit-image-0.16.2.tar.gz",
    "dd7fbd32da74d4e9967dc15845f731f16e7966cee61f5dc0e12e2abb1305068c",
    ("skimage/data/",),
)
SCIKIT_LEARN = Archive(
    "scikit-learn",
    "scikit_learn-1.7.2.tar.gz",
    "20e9e49ecd130598f1ca38a1d85090e1a600147b9c02fa6f15d69cb53d968fda",
    ("sklearn/datasets/images/",),
)
PHOTOS = (IMAGENET, NAMED, CATS_AND_DOGS, SCIKIT_IMAGE, SCIKIT_LEARN)
NEWS_SEARCHES: Mapping[str, set[int]] = {
    "politicians fighting over who leads the party": {1, 14, 33},
    "floods force people to leave their homes": {9, 47},
    "high water": {9, 47},
    "famine in Africa": {18, 19},
    "hunger": {18, 19},
    "HIV epidemic": {19},
    "a woman condemned to be stoned": {25, 26},
    "death penalty for adultery": {25, 26},
    "animal caught in a net": {34},
    "whale": {34},
    "bird migration": {41},
    "conference about the environment": {20, 37, 43},
    "deforestation": {40},
    "refugees rescued by a ship": {32, 45, 50},
    "asylum seekers": {32, 45, 50},
    "bank lays off staff": {49},
    "company profits fell": {2},
    "corruption in the police": {13},
    "somebody was shot": {31},
    "secret filming of women": {30},
    "licence plates": {17},
    "war against Iraq": {10, 11, 12, 16},
    "al-Qaida": {4, 7, 8, 28, 36},
    "farmers driven from their land": {3, 38},
    "Zimbabwe's president": {3, 38},
    "peace talks with rebels": {29},
    "Basque separatists": {46},
    "unemployment benefits": {22},
    "bullied for being gay": {6},
    "female head teachers": {15},
    "Princess Diana's sons": {35},
    "anthrax letters": {23},
    "divorced fathers angry about the courts": {39},
    "Chinese workers in Siberia": {44},
    "arms exports of China": {24},
    "bombing of villages in Georgia": {5},
    "Europe and Israel": {48},
    "spies listened to phone calls": {45},
    "warheads found in New Mexico": {27},
    "trade between Russia and Iraq": {11, 42},
}
NOT_IN_THE_NEWS = (
    "chocolate cake recipe",
    "football results",
    "how to knit a sweater",
    "piano lessons for beginners",
    "cheap flights to Mallorca",
    "growing tomatoes",
    "jazz concert",
    "knee pain after running",
    "python error message",
    "birthday party",
    "new phone with a better camera",
    "broken washing machine",
)
# By the name of the file; `camera` is two photos. Screenshots have no label: nothing is searched for in them.
LABELS: Mapping[str, str] = {
    "imagenet_00_243": "dog person",
    "imagenet_01_559": "chair",
    "imagenet_02_438": "laboratory",
    "imagenet_03_990": "chestnut",
    "imagenet_04_949": "strawberry",
    "imagenet_05_853": "cottage",
    "imagenet_06_609": "car",
    "imagenet_07_609": "car",
    "imagenet_08_915": "yurt",
    "imagenet_09_455": "cap",
    "imagenet_10_541": "drum",
    "imagenet_11_630": "shoe",
    "imagenet_12_741": "window",
    "imagenet_13_471": "cannon",
    "imagenet_14_129": "bird",
    "imagenet_15_99": "bird goose",
    "imagenet_16_251": "dog",
    "imagenet_17_22": "bird eagle",
    "imagenet_18_317": "insect",
    "imagenet_19_305": "insect beetle",
    "black_cat": "cat blackcat",
    "camera": "camera",
    "fighter_fish": "fish",
    "gold_fish": "fish goldfish",
    "guitar": "guitar",
    "puppy": "dog puppy",
    "snow": "snow",
    "sunrise": "sunrise",
    "tent": "tent",
    "000bec180eb18c7604dcecc8fe0dba07": "dog",
    "001513dfcb2ffafc82cccf4d8bbaba97": "dog",
    "001cdf01b096e06d78e9e5112d419397": "dog",
    "00214f311d5d2247d5dfe4fe24b2303d": "dog",
    "0021f9ceb3235effd7fcde7f7538ed62": "dog",
    "002211c81b498ef88e1b40b9abf84e1d": "dog",
    "00290d3e1fdd27226ba27a8ce248ce85": "dog",
    "002a283a315af96eaea0e28e7163b21b": "dog person",
    "003df8b8a8b05244b1d920bb6cf451f9": "dog person",
    "0e892d4c591e021c3aed7e076255a99a": "cat kitten",
    "1cef8fb87d5ca2b8a833b5f9549634aa": "cat kitten",
    "9d3c1cfde38e640d55a0398b526432c5": "cat kitten",
    "part-00132-3104": "cat kitten",
    "part-00738-1883": "cat kitten",
    "rocket": "rocket",
    "motorcycle_right": "motorcycle",
    "astronaut": "astronaut person",
    "coffee": "coffee",
    "hubble_deep_field": "stars",
    "page": "writing",
    "text": "writing",
    "gravel": "stones",
    "moon": "moon",
    "brick": "bricks",
    "cell": "",
    "grass": "",
    "chelsea": "cat",
    "coins": "coins",
    "ihc": "",
    "retina": "",
    "phantom": "",
    "color": "",
    "microaneurysms": "",
    "clock_motion": "",
    "horse": "horse",
    "china": "temple",
    "flower": "flower",
}
CAMERA_MAN = "camera person photographer"
PHOTO_SEARCHES: Mapping[str, str] = {
    "dog": "dog",
    "puppy": "puppy",
    "cat": "cat",
    "kittens": "kitten",
    "black cat": "blackcat",
    "pets": "dog cat",
    "animals": "dog cat bird goose insect fish horse",
    "bird": "bird",
    "geese": "goose",
    "eagle in flight": "eagle",
    "insect": "insect",
    "beetle": "beetle",
    "fish": "fish",
    "goldfish": "goldfish",
    "horse": "horse",
    "car": "car",
    "driving off-road": "car",
    "motorbike": "motorcycle",
    "vehicle": "car motorcycle",
    "strawberries": "strawberry",
    "fruit": "strawberry",
    "something to eat": "strawberry",
    "cup of coffee": "coffee",
    "drink": "coffee",
    "musical instrument": "drum guitar",
    "drum": "drum",
    "electric guitar": "guitar",
    "shoes": "shoe",
    "chairs": "chair",
    "furniture": "chair",
    "stained glass": "window",
    "cannon": "cannon",
    "weapon": "cannon",
    "chemistry experiment": "laboratory",
    "house in the country": "cottage",
    "pagoda": "temple",
    "building": "cottage temple yurt",
    "camping": "tent yurt",
    "mountains in winter": "snow",
    "sunset": "sunrise",
    "astronaut": "astronaut",
    "rocket launch": "rocket",
    "night sky": "stars moon",
    "photographer": "photographer",
    "camera": "camera photographer",
    "money": "coins",
    "flower": "flower",
    "brick wall": "bricks",
    "people": "person",
    "bottle top": "cap",
}
NOT_IN_THE_PHOTOS = (
    "airplane",
    "elephant",
    "pizza",
    "wedding",
    "swimming pool",
    "bicycle",
    "train station",
    "baby",
    "football match",
    "palm trees",
    "traffic lights",
    "Christmas tree",
    "surfing",
    "a birthday cake",
    "skyscrapers",
)


def read_news() -> list[str]:
    """Fifty news items; the first is line 1."""
    return (fetch(NEWS) / NEWS.folders[0]).read_text(encoding="latin-1").splitlines()


def find_labelled() -> Iterator[tuple[Path, frozenset[str]]]:
    """Photos with what is in them; of screenshots, which are in the way, nothing."""
    for archive in PHOTOS:
        for path in sorted(fetch(archive).rglob("*")):
            if path.suffix in (".jpg", ".png") and path.stem in LABELS and "tests" not in path.parts[-3:]:
                said = CAMERA_MAN if archive is SCIKIT_IMAGE and path.stem == "camera" else LABELS[path.stem]
                yield path, frozenset(said.split())
    for path in sorted(fetch(SCREENSHOTS).rglob("*.png")):
        yield path, frozenset()
