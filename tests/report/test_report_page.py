"""The page: every section there, nothing from outside, names are only names, numbers as given."""

import re
from html.parser import HTMLParser
from xml.etree import ElementTree

import pytest
from matplotlib import colormaps, colors

from helpers import example_material as example
from helpers.drawings import drawn_once
from pfedul import PfedulError
from pfedul.base.text import MINUS
from pfedul.report.formats import write_material

SECTIONS = ["attacks", "controls", "clients", "cost", "layers", "request", "repeat", "glossary"]
LOADING = {"src", "href", "xlink:href", "srcset", "data", "action", "poster"}
EVENT = re.compile(r"^on")


class Reader(HTMLParser):
    """What a browser would see: tags with attributes, text, and the SVG elements."""

    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.words: list[str] = []

    def handle_starttag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))

    def handle_data(self, data):
        self.words.append(data)


def read(text: str) -> Reader:
    reader = Reader()
    reader.feed(text)
    reader.close()
    return reader


def written(name: str, format: str, folder) -> str:
    path = folder / f"{name}.{format}"
    write_material(example.VARIANTS[name](), format, path)
    return path.read_text(encoding="utf-8")


@pytest.fixture(scope="module")
def pages(tmp_path_factory):
    """Each variant's HTML, made once and when it is first asked for."""
    folder, made = tmp_path_factory.mktemp("pages"), {}

    def page(name: str) -> str:
        if name not in made:
            made[name] = written(name, "html", folder)
        return made[name]

    with drawn_once():
        yield page


@pytest.mark.parametrize("name", example.VARIANTS)
def test_every_section_is_there_in_order(pages, name):
    reader = read(pages(name))
    found = [values["id"] for tag, values in reader.tags if tag == "section" and "id" in values]
    assert found == ["verdict", *SECTIONS]
    assert next(values for tag, values in reader.tags if tag == "html")["lang"] == "en"


@pytest.mark.parametrize("name", example.VARIANTS)
def test_nothing_comes_from_outside_and_nothing_runs(pages, name):
    text = pages(name)
    reader = read(text)
    assert not {"script", "link", "iframe", "object", "embed", "img"} & {t for t, _ in reader.tags}
    for tag, values in reader.tags:
        assert not [key for key in values if EVENT.match(key)], tag
        for key in LOADING & values.keys():
            assert values[key].startswith("#"), (tag, key, values[key])
    assert "@import" not in text
    assert not re.search(r"url\((?!#)", "".join(re.findall(r"<style>.*?</style>", text, re.DOTALL)))


@pytest.mark.parametrize("name", example.VARIANTS)
def test_ids_are_unique_and_every_reference_leads_somewhere(pages, name):
    reader = read(pages(name))
    ids = [values["id"] for _, values in reader.tags if "id" in values]
    assert len(ids) == len(set(ids))
    used = [
        target
        for _, values in reader.tags
        for key in ("href", "clip-path")
        for target in re.findall(r"#([\w.-]+)", values.get(key) or "")
    ]
    assert used
    assert set(used) <= set(ids)


@pytest.mark.parametrize("name", ["full", "hostile", "many", "one_layer"])
def test_figures_are_whole_xml_with_words_for_those_who_cannot_see(pages, name):
    figures = re.findall(r"<svg [^>]*role=\"img\".*?</svg>", pages(name), re.DOTALL)
    assert len(figures) > 20
    for figure in figures:
        root = ElementTree.fromstring(figure)
        labels = root.get("aria-labelledby").split()
        named = {node.get("id"): node.text for node in root if node.tag in {"title", "desc"}}
        assert all(named[label] for label in labels)
        assert root.find(".//text") is not None, "text must stay text"


def test_figures_leave_their_colours_to_the_page(pages):
    figures = "".join(re.findall(r"<svg [^>]*role=\"img\".*?</svg>", pages("full"), re.DOTALL))
    assert "currentColor" in figures
    assert "var(--candidate)" in figures
    colours = set(re.findall(r"(?:fill|stroke): (#\w+)", figures))
    shades = {colors.to_hex(c) for c in colormaps["cividis"].resampled(32)(range(32))}
    assert colours <= shades, colours - shades


def test_hostile_names_are_only_names(pages, tmp_path):
    text = pages("hostile")
    assert "<script" not in text
    assert "alert(1)" in text
    words = "".join(read(text).words)
    assert f"Was {example.HOSTILE} forgotten?" in words
    markdown = written("hostile", "md", tmp_path)
    outside = re.sub(r"\n```\n.*?\n```\n", "", markdown, flags=re.DOTALL)
    assert "<script" not in outside
    assert "&lt;script&gt;alert(1)&lt;/script&gt;" in outside
    head = "| client | before | after | change | retrained |"
    rows = markdown.split(head)[1].split("\n\n")[0].strip().splitlines()
    cells = {len(re.split(r"(?<!\\)\|", row)) for row in rows}
    assert cells == {7}, "a bar in a name must not make a new cell"


def test_a_name_that_xml_cannot_hold_is_shown_without_it(tmp_path):
    material = example.full()
    material["clients"]["a\x00b\ud800"] = material["clients"]["client-00"]
    material["request"]["before"]["a\x00b\ud800"] = 0.5
    material["request"]["after"]["a\x00b\ud800"] = 0.5
    with drawn_once():
        for format in ("html", "md", "json"):
            write_material(material, format, tmp_path / "page")
            assert b"\x00" not in (tmp_path / "page").read_bytes(), format


@pytest.mark.parametrize("format", ["html", "md", "json"])  # a pdf has the time in it
def test_the_same_material_gives_the_same_bytes(format, tmp_path):
    first, second = (tmp_path / name for name in ("first", "second"))
    material = example.full()
    write_material(material, format, first)
    with drawn_once():  # all figures again, and then only those that change
        write_material(dict(reversed(material.items())), format, second)
        assert first.read_bytes() == second.read_bytes()
        material["evidence"]["tests"][0]["difference"]["value"] += 0.25
        write_material(material, format, second)
        assert first.read_bytes() != second.read_bytes()


def test_numbers_are_shown_as_given(pages):
    material, text = example.full(), " ".join(read(pages("full")).words)
    evidence, request = material["evidence"], material["request"]
    test = evidence["tests"][4]
    low, high = test["figures"]["candidate"]["interval"]
    assert f"{test['figures']['candidate']['value']:.3f} ({low:.3f} to {high:.3f})" in text
    assert f"{test['difference']['value']:+.3f}".replace("-", MINUS) in text
    assert "0.987" in text
    assert "0.977 to 0.998" in text
    assert "1.012" in text, "what the formula gives for retraining"
    assert "0.44 seconds of computing (CPU) and 0 rounds with the clients: 4 %" in text
    for client, before in request["before"].items():
        assert f"{100 * before:.1f} %" in text
        assert client in text
    for oracle in evidence["oracles"]:
        assert str(oracle["seed"]) in text
        assert oracle["shared_sha256"][:16] in text
    assert request["shared_sha256_after"] in text
    assert evidence["command"] in text
    assert "threshold 0.1544" in text


def test_the_worst_client_is_named(pages):
    request = example.full()["request"]
    change = {name: request["after"][name] - before for name, before in request["before"].items()}
    worst = min(change, key=change.get)
    assert f"Worst off is {worst}" in pages("full")


@pytest.mark.parametrize(
    ("name", "sentences"),
    [
        (
            "without_evidence",
            ["No rehearsal was made, so nothing is known", "Nothing was measured"],
        ),
        ("untrained", ["No client was forgotten in this run, and no removal was rehearsed."]),
        (
            "rehearsed_only",
            ["Nothing has been forgotten in this run yet.", "Would client-05 be forgotten?"],
        ),
        ("other_tensors", ["Evidence does not apply", "others than those tested"]),
        ("audited", ["made after the fact", "not tested: the stale head was erased"]),
        ("silent", ["No attack could be made", "No controls were run"]),
        ("leaking", ["These controls do not hold: untouched.", "What more would need"]),
        ("strict", ["U-LiRA accuracy", "0.537", "KLoM", "0.812", "Twins"]),
    ],
)
def test_what_is_missing_or_wrong_is_said(pages, name, sentences, tmp_path):
    shown = " ".join(" ".join(read(pages(name)).words).split()).lower()
    markdown = written(name, "md", tmp_path).lower()
    for sentence in sentences:
        assert sentence.lower() in shown
        assert sentence.lower() in markdown


def test_a_verdict_about_other_tensors_is_not_shown_as_the_verdict(pages):
    text = pages("other_tensors")
    assert 'class="banner unknown"' in text
    assert 'id="verdict-heading">evidence does not apply<' in text
    reasons = example.other_tensors()["evidence"]["verdict"]["reasons"]
    assert not [reason for reason in reasons if reason in text]
    assert "of what an attacker could recognise" not in text
    assert 'class="banner good"' in pages("full")
    assert all(reason in pages("full") for reason in reasons)


def test_a_format_or_a_place_that_is_none_is_refused(tmp_path):
    with pytest.raises(PfedulError, match="There is no format 'doc'; there are: html, md"):
        write_material(example.untrained(), "doc", tmp_path / "page")
    with pytest.raises(PfedulError, match="cannot be written"):
        write_material(example.untrained(), "md", tmp_path / "missing" / "page.md")
    with pytest.raises(PfedulError, match="not a number"):
        write_material({"run": {"loss": float("nan")}}, "json", tmp_path / "page.json")
    assert not list(tmp_path.iterdir())
