"""The docs are true: generated pages are fresh, the README's code runs, registries are listed."""

import importlib
import importlib.util
import json
import re
from dataclasses import fields
from pathlib import Path

import pytest
from click.testing import CliRunner

from pfedul.cli import main
from pfedul.data.datasets import DATASETS
from pfedul.data.partitions import PARTITIONS
from pfedul.models import MODELS
from pfedul.personalization import PERSONALIZATIONS
from pfedul.unlearn.methods import METHODS

ROOT = Path(__file__).parent.parent


def load_generator():
    spec = importlib.util.spec_from_file_location("generate", ROOT / "docs/generate.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


GENERATOR = load_generator()
PAGES_ON_DISK = {f"docs/{page.name}" for page in (ROOT / "docs").glob("*.md")}


@pytest.mark.parametrize("name", GENERATOR.PAGES)
def test_generated_pages_are_fresh(name):
    text = (ROOT / "docs" / name).read_text()
    assert text == GENERATOR.PAGES[name](), "run 'make docs'"


def test_the_keyword_arguments_are_those_of_the_options():
    assert GENERATOR.MODULE.read_text() == GENERATOR.keywords_module(), "run 'make docs'"


@pytest.mark.parametrize(
    ("part", "module"), [("forgetting", "forgetting_page"), ("femnist", "femnist")]
)
def test_the_measured_parts_of_the_results_are_those_of_the_files(part, module, monkeypatch):
    """The benches write them, from what is in results/."""
    monkeypatch.syspath_prepend(str(ROOT / "bench"))
    page = importlib.import_module(module)
    text = (ROOT / "docs/results.md").read_text()
    measured = text.split(f"<!-- {part}: start -->\n")[1].split(f"<!-- {part}: end -->")[0]
    assert measured == page.page_part()


def test_every_page_with_the_note_is_generated():
    pages = (ROOT / "docs").glob("*.md")
    notes = (GENERATOR.NOTE, "written by `make docs` -->")
    marked = {page.name for page in pages if any(note in page.read_text() for note in notes)}
    assert marked == set(GENERATOR.PAGES)


def test_every_option_of_a_method_has_a_help_text_in_the_docs():
    listed = {(row["method"], row["option"]) for row in GENERATOR.option_rows()}
    options = {(f"`{m.name}`", f"`{spec.name}`") for m in METHODS for spec in fields(m.options)}
    assert listed == options


def readme_python() -> str:
    blocks = re.findall(r"```python\n(.*?)```", (ROOT / "README.md").read_text(), re.DOTALL)
    assert len(blocks) == 1
    return blocks[0]


def test_the_readmes_python_runs(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    exec(compile(readme_python(), "README.md", "exec"), {"__name__": "__main__"})
    assert "Evaluation(round=5" in capsys.readouterr().out
    assert (tmp_path / "runs/first/reports/report.html").is_file()


def test_the_python_of_the_core_page_runs(capsys):
    page = (ROOT / "docs/core.md").read_text()
    (block,) = re.findall(r"```python\n(.*?)```", page, re.DOTALL)
    exec(compile(block, "core.md", "exec"), {"__name__": "__main__"})
    assert "Plan to forget hospital-7" in capsys.readouterr().out


def test_the_python_of_the_python_page_runs(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("MPLBACKEND", "Agg")
    page = (ROOT / "docs/python.md").read_text()
    code = "\n".join(re.findall(r"```python\n(.*?)```", page, re.DOTALL))
    exec(compile(code, "python.md", "exec"), {"__name__": "__main__"})
    printed = capsys.readouterr().out
    assert "Plan to forget client-01" in printed
    assert "\nOutcome(request=1, targets=['client-01']" in printed
    assert "round 5 loss" in printed
    assert (tmp_path / "models/client-02/model.py").is_file()
    assert (tmp_path / "runs/hospitals/shared.safetensors").is_file()


def test_the_readmes_python_is_short():
    lines = [line for line in readme_python().splitlines() if line.strip()]
    assert len(lines) <= 10


@pytest.mark.parametrize(
    "page", [*sorted(page.name for page in ROOT.glob("*.md")), *sorted(PAGES_ON_DISK)]
)
def test_every_link_to_a_file_leads_somewhere(page):
    text = re.sub(r"```.*?```", "", (ROOT / page).read_text(), flags=re.DOTALL)
    for link in re.findall(r"\]\(([^)\s#:]+)(?:#[^)]*)?\)", text):
        assert ((ROOT / page).parent / link).exists(), link


def test_registry_command_line_and_docs_agree():
    page = (ROOT / "docs/choices.md").read_text()
    listed = {
        "datasets": ("datasets", DATASETS),
        "partitions": ("datasets", PARTITIONS),
        "models": ("models", MODELS),
        "personalizations": ("personalizations", PERSONALIZATIONS),
    }
    for key, (command, registry) in listed.items():
        printed = json.loads(CliRunner().invoke(main, [command, "--json"]).stdout)[key]
        names = [entry.name for entry in registry]
        assert [row["name"] for row in printed] == names
        assert all(f"| {name} |" in page for name in names)


@pytest.mark.parametrize(
    ("folder", "registry"), [("personalization", PERSONALIZATIONS), ("models", MODELS)]
)
def test_an_entry_is_one_file_and_one_registry_line(folder, registry):
    source = (ROOT / "src/pfedul" / folder / "__init__.py").read_text()
    lines = source.split("Registry(", 1)[1].split(")", 1)[0]
    for entry in registry:
        constant = entry.name.upper().replace("-", "_")
        assert f":{constant}" in lines
        files = (ROOT / "src/pfedul" / folder).glob("*.py")
        homes = [file.name for file in files if f"\n{constant} = " in file.read_text()]
        assert len(homes) == 1, (entry.name, homes)


def test_no_function_is_longer_than_sixty_lines():
    import ast

    for file in (ROOT / "src").rglob("*.py"):
        for node in ast.walk(ast.parse(file.read_text())):
            if isinstance(node, ast.FunctionDef):
                assert node.end_lineno - node.lineno < 60, (file.name, node.name)
