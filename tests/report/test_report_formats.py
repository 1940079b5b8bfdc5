"""JSON is the material; Markdown has the words and tables of the page."""

import json

import pytest

from helpers import example_material as example
from pfedul.report.blocks import Block, Fold, Gallery, Table
from pfedul.report.formats import write_material
from pfedul.report.looks import LOOKS
from pfedul.report.page import report_content
from pfedul.report.sections.verdict import MEANINGS


def all_blocks(blocks) -> list[Block]:
    """Those behind folds as well."""
    return [part for b in blocks for part in (all_blocks(b.blocks) if isinstance(b, Fold) else [b])]


def blocks_of(page) -> list[Block]:
    return [block for section in page.sections for block in all_blocks(section.blocks)]


@pytest.mark.parametrize("name", example.VARIANTS)
def test_json_is_the_material(name, tmp_path):
    material = example.VARIANTS[name]()
    write_material(material, "json", tmp_path / "report.json")
    text = (tmp_path / "report.json").read_text()
    assert json.loads(text) == material
    assert list(json.loads(text)) == sorted(material)


@pytest.mark.parametrize("name", ["full", "audited", "without_evidence"])
def test_markdown_has_every_title_and_every_table(name, tmp_path):
    material = example.VARIANTS[name]()
    write_material(material, "md", tmp_path / "report.md")
    text = (tmp_path / "report.md").read_text()
    page = report_content(material)
    assert all(f"\n## {section.title}\n" in text for section in page.sections)
    tables = [block for block in blocks_of(page) if isinstance(block, Table)]
    assert text.count("\n| ---") == len(tables) > 2
    assert f"## Verdict: {page.banner.look.sign} {page.banner.word}" in text


def test_markdown_says_pictures_in_words(tmp_path):
    write_material(example.full(), "md", tmp_path / "report.md")
    text = (tmp_path / "report.md").read_text()
    assert "<svg" not in text
    blocks = blocks_of(report_content(example.full()))
    galleries = [block for block in blocks if isinstance(block, Gallery)]
    assert text.count("Pictures are in the HTML page") == len(galleries) > 5


def test_a_configuration_cannot_leave_its_fence(tmp_path):
    material = {**example.without_evidence(), "settings": 'name = "```"\n# <b>x</b>\n'}
    write_material(material, "md", tmp_path / "report.md")
    assert '````\nname = "```"\n# <b>x</b>\n````' in (tmp_path / "report.md").read_text()


@pytest.mark.parametrize("word", MEANINGS)
def test_every_verdict_word_has_its_meaning_and_tone(word):
    banner = report_content(example.leaking(word)).banner
    assert (banner.word, banner.meaning) == (word, MEANINGS[word])
    assert (banner.look.tone == "good") == (word == "forgotten")


def test_no_two_verdicts_share_a_colour_or_a_sign():
    assert set(LOOKS) == set(MEANINGS)
    assert len({look.tone for look in LOOKS.values()}) == len(LOOKS)
    assert len({look.sign for look in LOOKS.values()}) == len(LOOKS)


def test_an_unknown_verdict_is_not_good_news():
    assert report_content(example.leaking("splendid")).banner.look.tone == "unknown"


@pytest.mark.parametrize("part", ["run", "settings", "request", "evidence", "clients", "applies"])
def test_any_part_may_be_missing(part, tmp_path):
    material = example.full()
    material[part] = None
    write_material(material, "md", tmp_path / "report.md")
    del material[part]
    write_material(material, "md", tmp_path / "report.md")


@pytest.mark.parametrize("key", sorted(example.full()["evidence"]))
def test_any_part_of_the_evidence_may_be_missing(key, tmp_path):
    material = example.full()
    del material["evidence"][key]
    write_material(material, "md", tmp_path / "report.md")
    material["evidence"][key] = None
    write_material(material, "md", tmp_path / "report.md")
