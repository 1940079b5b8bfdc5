"""Writes what is generated from the code: docs pages (`PAGES`) and `keywords.py`.

`make docs` runs it; a test fails if a page on disk differs from what it makes.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import MISSING, Field, fields
from pathlib import Path
from typing import Any

import click

from pfedul.aggregation import AGGREGATIONS
from pfedul.cli import main
from pfedul.cli.parts import EXIT_CODES
from pfedul.data.datasets import DATASETS
from pfedul.data.partitions import PARTITIONS
from pfedul.experiments import EXPERIMENTS
from pfedul.experiments.cases import Scale, Shelf
from pfedul.experiments.document import document_of
from pfedul.experiments.pages import CLAIM_HEAD, claim_texts, notes, tables, title
from pfedul.experiments.scales import SCALES
from pfedul.flower.app_config import ACTIONS, rows
from pfedul.models import MODELS
from pfedul.personalization import PERSONALIZATIONS
from pfedul.records import RECORDS
from pfedul.settings import Settings
from pfedul.tasks import TASKS
from pfedul.terminal.choices import DATASET, PERSONALIZATION, choice_rows, defaults_of
from pfedul.unlearn.methods import METHODS
from pfedul.unlearn.options import ForgetOptions
from pfedul.unlearn.pfedul.corrections import CORRECTIONS

NOTE = "<!-- Written by `make docs`; do not edit. -->\n\n"
HERE = Path(__file__).parent


def cli_page() -> str:
    """Every command with its help."""
    sections = ["# Command line\n\n" + NOTE + _help("pfedul", main), _exit_codes()]
    for name, command in sorted(main.commands.items()):
        sections.append(f"## {name}\n\n" + _help(f"pfedul {name}", command))
    sections.append(_run_config())
    return "\n".join(sections)


def _exit_codes() -> str:
    rows = [{"code": str(code), "meaning": words} for code, words in EXIT_CODES.items()]
    outro = (
        "\nAsking again for what is done changes nothing and exits with 0. With `--json` an error\n"
        'is JSON as well, in the last line of stderr: `{"error": ..., "exit_code": ...}`.\n'
    )
    return "## Exit codes\n\n" + _markdown(rows) + outro


def _run_config() -> str:
    intro = (
        "`flwr run APP pfedul -c 'key=value ...'`, text in double quotes (docs/flower.md).\n"
        "`train` also takes the options of `pfedul train`, `forget` and `inspect` those of\n"
        "`pfedul forget`, without the two hyphens: `local-epochs=5`. Keys of other actions\n"
        "are ignored. `action` is one of " + ", ".join(ACTIONS) + ".\n\n"
    )
    return "## The run config of the Flower app\n\n" + intro + _markdown(rows())


def _help(path: str, command: click.Command) -> str:
    context = click.Context(command, info_name=path, max_content_width=100, terminal_width=100)
    return f"```\n{command.get_help(context)}\n```\n"


def choices_page() -> str:
    """A table for each registry."""
    intro = (
        "A choice is written `name` or `name:key=value,key=value`, on the command line, in\n"
        "TOML and in Python alike; a value without a key belongs to the first option\n"
        "(`dirichlet:0.5`), and lists are joined by plus signs (`classes=0+1`).\n"
    )
    tables = {
        "Data sets": choice_rows(DATASETS, DATASET),
        "Partitions": choice_rows(PARTITIONS),
        "Tasks": choice_rows(TASKS),
        "Models": choice_rows(MODELS),
        "Personalisations": choice_rows(PERSONALIZATIONS, PERSONALIZATION),
        "Aggregations": choice_rows(AGGREGATIONS, ("name", "summary", "options", "memory")),
        "Corrections": choice_rows(CORRECTIONS),
        "Records": record_rows(),
    }
    sections = [f"## {title}\n\n{_markdown(rows)}" for title, rows in tables.items()]
    return "# Choices\n\n" + NOTE + intro + "\n" + "\n".join(sections)


def settings_page() -> str:
    """Every setting of a federation."""
    intro = (
        "A setting is a key of `federation.toml`, a keyword of `Federation.create`, and, with\n"
        "hyphens, an option of `pfedul train`. Those marked *later* may be changed by a later\n"
        "call on the same run; all others are fixed when the run is created. A setting without\n"
        "a default is left out of the file.\n\n"
    )
    rows = [
        {
            "setting": f"`{spec.name}`",
            "default": _shown(spec.default),
            "meaning": _meaning(spec),
            "later": "yes" if spec.metadata["later"] else "",
        }
        for spec in fields(Settings)
    ]
    return "# Settings\n\n" + NOTE + intro + _markdown(rows)


def _meaning(spec: Field[Any]) -> str:
    choices = spec.metadata["choices"]
    listed = f" One of {', '.join(f'`{choice}`' for choice in choices)}." if choices else ""
    return f"{spec.metadata['help']}{listed}"


def record_rows() -> list[dict[str, str]]:
    """What training can record, and for which methods."""
    return [
        {
            "record": f"`{record.name}`",
            "what it keeps": record.summary,
            "memory": record.memory,
            "for": ", ".join(
                f"`{item.name}`" for item in METHODS if record.name in item.needs.records
            ),
        }
        for record in RECORDS
    ]


def methods_page() -> str:
    """Every method, then every option."""
    intro = (
        "`pfedul forget RUN --client ID --method NAME`, with options as `NAME:key=value,...`.\n"
        "Every method changes shared tensors only; the target's personal part and records are\n"
        "erased, and the others' personal parts stay bit for bit as they are unless the method\n"
        "starts over, or they recalibrate: after `--recalibrate` or repair rounds, and always\n"
        "with `pfedul`, `old-heads`, `ct`, `fedmemprune` and `recalibration`. How each was\n"
        "adapted and checked: [methods-notes.md](methods-notes.md).\n"
    )
    options = "\n## Options\n\n" + _markdown(option_rows())
    return "# Methods\n\n" + NOTE + intro + "\n" + _markdown(method_rows()) + options


def option_rows() -> list[dict[str, str]]:
    """A row for each option of each method that has a help text."""
    return [
        {
            "method": f"`{method.name}`",
            "option": f"`{spec.name}`",
            "default": _shown(spec.default),
            "meaning": spec.metadata["help"],
        }
        for method in METHODS
        for spec in fields(method.options)
        if spec.metadata.get("help")
    ]


def _shown(default: object) -> str:
    return "" if default is None or default is MISSING else f"`{default}`"


def method_rows() -> list[dict[str, str]]:
    """A row for each method."""
    return [
        {
            "method": f"`{method.name}`",
            "what it does": method.summary,
            "options": ", ".join(f"{key}={value}" for key, value in defaults_of(method).items()),
            "records": "+".join(method.needs.records) or "none",
            "their memory": method.about.memory,
            "target takes part": "yes" if method.needs.target else "no",
            "who works": method.about.who,
            "rounds": method.about.rounds,
            "guarantee": method.about.guarantee,
            "paper": method.about.paper,
            "trap avoided": method.about.avoids,
        }
        for method in METHODS
    ]


def _markdown(rows: list[dict[str, str]]) -> str:
    def lines() -> Iterator[str]:
        yield "| " + " | ".join(rows[0]) + " |"
        yield "|" + "---|" * len(rows[0])
        for row in rows:
            yield "| " + " | ".join(cell.replace("|", "\\|") for cell in row.values()) + " |"

    return "\n".join(lines()) + "\n"


# The paper's tables, from the cases that are there


RESULTS = HERE.parent / "results"
SCALE = Scale("cpu")


def documents() -> list[dict[str, Any]]:
    """Every experiment at the scale of a small machine, as complete as its cases are.

    What trains nothing is cheap at any scale.
    """
    shelf = Shelf(RESULTS / SCALE.name)
    return [document_of(one, Scale("paper") if one.direct else SCALE, shelf) for one in EXPERIMENTS]


def reproduction_page() -> str:
    """Every experiment with its tables; `pfedul reproduce` makes the cases."""
    intro = (
        "The tables and figures of the paper, and ours, made by\n\n"
        "    pfedul reproduce NAME... --data-root DIR --into results/cpu\n\n"
        "which does the cases that are missing and no other. Cases, tables and pictures are files\n"
        "there. What they say of the paper: [fidelity.md](fidelity.md).\n\n"
        f"Scale `{SCALE.name}`: {SCALES[SCALE.name]}. {SCALE.seeds} trainings are wanted, with\n"
        f"{SCALE.oracles} oracles each. Mean ± standard deviation over trainings; in brackets\n"
        "what the paper prints. What trains nothing is shown at the scale `paper`.\n"
    )
    sections = map(_experiment, documents())
    return "# The paper, table by table\n\n" + NOTE + intro + "\n" + "\n".join(sections)


def _experiment(document: dict[str, Any]) -> str:
    heading = f"## {title(document)}\n\n"
    if not any(group["trainings"] for group in document["groups"]) and document["missing"]:
        return f"{heading}Not measured yet.\n"
    lacks = document["missing"]
    missing = f"**Not complete: {lacks} trainings are missing.**\n\n" if lacks else ""
    remarks = "".join(f"- {note}\n" for note in notes(document))
    return f"{heading}{missing}{_picture(document)}{tables(document)}\n{remarks}"


def _picture(document: dict[str, Any]) -> str:
    name = document["experiment"]
    file = RESULTS / SCALE.name / f"{name}.png"
    return f"![{name}](../results/{SCALE.name}/{file.name})\n\n" if file.is_file() else ""


_MARKS = ("<!-- claims: start; written by `make docs` -->\n", "<!-- claims: end -->")


def fidelity_page() -> str:
    """The page as it is, with the claims of all experiments between their marks."""
    page = (HERE / "fidelity.md").read_text(encoding="utf-8")
    before, rest = page.split(_MARKS[0])
    after = rest.split(_MARKS[1])[1]
    rows = [
        dict(zip(("experiment", *CLAIM_HEAD), (f"`{one['experiment']}`", *claim), strict=True))
        for one in documents()
        for claim in map(claim_texts, one["claims"])
    ]
    return f"{before}{_MARKS[0]}{_markdown(rows)}{_MARKS[1]}{after}"


# Keyword arguments, for editors and type checkers

_KEYWORDS = '''"""Keyword arguments of the verbs of a federation, for editors and type checkers.

Written by `make docs` from `Settings` and `ForgetOptions`; do not edit.
"""

from pathlib import Path
from typing import Literal, TypedDict
'''


def keywords_module() -> str:
    """A typed dictionary for each kind of keyword arguments."""
    later = [spec for spec in fields(Settings) if spec.metadata["later"]]
    given = {"data", "model"}  # parameters of `create` itself
    rest = [spec for spec in fields(Settings) if spec not in later and spec.name not in given]
    return _KEYWORDS + "".join(
        (
            _typed_dict("LaterKeywords", "TypedDict", "Settings that may change later.", later),
            _typed_dict("SettingsKeywords", "LaterKeywords", "Settings of a new run.", rest),
            _typed_dict(
                "ForgetKeywords", "TypedDict", "Options of a removal.", fields(ForgetOptions)
            ),
        )
    )


def _typed_dict(name: str, base: str, summary: str, specs: Iterable[Field[Any]]) -> str:
    head = f'\n\nclass {name}({base}, total=False):\n    """{summary}"""\n\n'
    return head + "".join(f"    {spec.name}: {_keyword_type(spec)}\n" for spec in specs)


def _keyword_type(spec: Field[Any]) -> str:
    """The type of a field, with its choices."""
    kind, optional = str(spec.type).removesuffix(" | None"), str(spec.type).endswith(" | None")
    if spec.metadata["choices"]:
        kind = "Literal[" + ", ".join(f'"{choice}"' for choice in spec.metadata["choices"]) + "]"
    if spec.name == "data_root":
        kind = "str | Path"
    return f"{kind} | None" if optional else kind


MODULE = HERE.parent / "src/pfedul/keywords.py"

PAGES = {
    "cli.md": cli_page,
    "choices.md": choices_page,
    "settings.md": settings_page,
    "methods.md": methods_page,
    "reproduction.md": reproduction_page,
    "fidelity.md": fidelity_page,
}


if __name__ == "__main__":
    for name, page in PAGES.items():
        (HERE / name).write_text(page(), encoding="utf-8")
        click.echo(f"wrote docs/{name}")
    MODULE.write_text(keywords_module(), encoding="utf-8")
    click.echo(f"wrote {MODULE.name}")
