"""The tables of a comparison, and how they, the terminal and the picture name things."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from statistics import fmean

from pfedul.base.text import MISSING, counted, human_bytes, number, readable, signed
from pfedul.report.blocks import Table
from pfedul.report.looks import Cell, verdict_cell, with_sign
from pfedul.report.material import Json

OWN_BASE = "†"
OWN_BASE_NOTE = (
    f"{OWN_BASE} branches from a run of its own, trained in clusters: its accuracy before and "
    "after, and so its PPS and CFI, are those of that run"
)
SPREAD_NOTE = "± is the standard deviation over the seeds (of two: half their difference)"
SHARED_NOTE = (
    "personal models do not contain the shared one here, so a method that changes only the shared "
    "tensors has PPS and CFI 1 whatever it did; the accuracy of the shared model on the remaining "
    "clients' test samples shows it"
)
NO_RESULT = "no result"


def marked(row: Json, name: str) -> str:
    """The name of a method, with a mark if it branched from a run of its own."""
    return f"{name} {OWN_BASE}" if row.get("own_base") else name


def verdict_words(verdicts: Sequence[str]) -> str:
    """Verdicts of several seeds.

    >>> verdict_words(["forgotten", "not forgotten", "forgotten"])
    'forgotten (2), not forgotten (1)'
    """
    counts = Counter(verdicts)
    if len(counts) == 1:
        return verdicts[0]
    return ", ".join(f"{verdict} ({count})" for verdict, count in counts.items())


def verdicts_of(row: Json) -> list[str]:
    """The verdicts of a row, one for each seed."""
    verdicts = row.get("verdicts") or ([row["verdict"]] if row.get("verdict") else [])
    return [*verdicts, *[NO_RESULT] * row.get("failed", 0)]


def amount(value: float | None) -> str:
    """Seconds and shares, whose sizes differ by thousands, to about three digits.

    >>> amount(0.0104), amount(0.4776), amount(5.27), amount(113.14), amount(0.0), amount(None)
    ('0.010', '0.478', '5.27', '113.1', '0', 'not measured')
    """
    if value is None:
        return MISSING
    return "0" if value == 0 else f"{value:.{3 if value < 1 else 2 if value < 10 else 1}f}"


def figure(row: Json, name: str, sign: bool = False) -> str:
    """A figure of a row, with its standard deviation over the seeds.

    >>> figure({"pps": 0.91234, "spread": {"pps": 0.02}}, "pps")
    '0.912 ±0.020'
    """
    value = (signed if sign else number)(row[name])
    spread = row.get("spread", {}).get(name)
    return value if spread is None else f"{value} ±{spread:.3f}"


def has_spread(rows: Iterable[Json]) -> bool:
    return any(row.get("spread", {}).get("mean_excess") is not None for row in rows)


def has_shared_accuracy(rows: Iterable[Json]) -> bool:
    """Whether the accuracy of the shared model is known: with Ditto."""
    return any(row.get("shared_accuracy_after") is not None for row in rows)


def shared_words(row: Json) -> str:
    """The accuracy of the shared model before and after.

    >>> shared_words({"shared_accuracy_before": 0.8, "shared_accuracy_after": 0.1})
    '0.800 to 0.100'
    """
    if row.get("shared_accuracy_after") is None:
        return ""
    return f"{number(row['shared_accuracy_before'])} to {number(row['shared_accuracy_after'])}"


def notes_on(rows: Sequence[Json]) -> list[str]:
    """What a reader of these rows must know."""
    notes = {
        SPREAD_NOTE: has_spread(rows),
        SHARED_NOTE: has_shared_accuracy(rows),
        OWN_BASE_NOTE: any(row.get("own_base") for row in rows),
    }
    return [note for note, applies in notes.items() if applies]


def is_oracle(row: Json) -> bool:
    return str(row["label"]).startswith("oracle")


def who(document: Json) -> str:
    """Who is forgotten, and for several trainings in which.

    >>> who({"targets": ["ann", "bob"]})
    'ann and bob forgotten'
    >>> who({"runs": [{"targets": ["ann"], "seed": 0}, {"targets": ["bob"], "seed": 1}]})
    'ann forgotten in the training with seed 0, bob in that with seed 1'
    """
    runs = document.get("runs")
    if not runs:
        return f"{' and '.join(document['targets'])} forgotten"
    first, *others = (" and ".join(run["targets"]) for run in runs)
    parts = [f"{first} forgotten in the training with seed {runs[0]['seed']}"]
    parts += [
        f"{name} in that with seed {run['seed']}"
        for name, run in zip(others, runs[1:], strict=True)
    ]
    return ", ".join(parts)


def setting(document: Json) -> str:
    """What was trained, in one line."""
    rounds = counted(document["rounds"], "round")
    return f"{document['personalization']} on {document['data']}, {rounds}"


# Columns: the name of each in the terminal -> its title on the page, and the text of a row

Columns = dict[str, tuple[str, Callable[[Json], str]]]


def _known(name: str, form: Callable[[float], str]) -> Callable[[Json], str]:
    """Empty if unknown: references have no rounds."""
    return lambda row: "" if row.get(name) is None else form(row[name])


def _interval(row: Json, name: str) -> str:
    """Empty over several seeds: these have a deviation."""
    ends = row.get(name)
    return "" if ends is None else _range(*ends)


def _ends(row: Json) -> str:
    return _range(row["lowest_ratio"], row["highest_ratio"], 2)


def _quartiles(row: Json) -> str:
    return _range(row["lower_quartile"], row["upper_quartile"], 2)


def _range(low: float, high: float, decimals: int = 3) -> str:
    return f"{number(low, decimals)} to {number(high, decimals)}"


SHARED = "shared model"
PRESERVATION: Columns = {
    "removed": ("leak removed", _known("removed", "{:.0%}".format)),
    "excess": ("mean excess", partial(figure, name="mean_excess", sign=True)),
    "largest": ("largest excess", partial(figure, name="largest_excess", sign=True)),
    "MIA": ("MIA accuracy", partial(figure, name="mia_accuracy")),
    "accuracy": ("remaining accuracy", partial(figure, name="remaining_accuracy")),
    "PPS": ("PPS", partial(figure, name="pps")),
    "PPS from, to": ("95 % interval of PPS", partial(_interval, name="pps_interval")),
    "CFI": ("CFI", partial(figure, name="cfi")),
    "CFI from, to": ("95 % interval of CFI", partial(_interval, name="cfi_interval")),
    "clients": ("lowest and highest client", _ends),
    "quartiles": ("middle half of the clients", _quartiles),
    SHARED: ("shared model, before and after", shared_words),
}
COST: Columns = {
    "CPU s": ("CPU seconds", _known("cpu_seconds", amount)),
    "seconds": ("seconds", _known("seconds", amount)),
    "faster": ("times faster than retraining (CPU time)", _known("cpu_speedup", amount)),
    "rounds": ("global rounds", _known("rounds", "{:.4g}".format)),
    "sent": ("sent", _known("bytes_sent", human_bytes)),
    "stored": ("kept by training", _known("bytes_stored", human_bytes)),
}


def cells(row: Json) -> dict[str, str]:
    """All columns of a row as text; empty where the row has no result."""
    columns, known = {**PRESERVATION, **COST}, has_result(row)
    return {name: text(row) if known else "" for name, (_, text) in columns.items()}


def _titled(row: Json, columns: Columns) -> dict[str, str]:
    texts = cells(row)
    return {title: texts[name] for name, (title, _) in columns.items()}


def has_result(row: Json) -> bool:
    return row["pps"] is not None


# Tables


def forgetting_table(document: Json) -> Table:
    """What was forgotten and what was kept, by methods and references."""
    rows = [*document["references"], *document["methods"]]
    over = "mean ± standard deviation over seeds" if has_spread(rows) else "one seed"
    names = [_name(row) for row in rows]
    return _preservation_table(f"Forgetting and preservation, {over}", "method", rows, names)


def references_table(document: Json) -> Table:
    """The untouched run and each oracle, for each training."""
    rows = document.get("reference_cells", document["references"])
    caption = "The untouched run, and each oracle against the others"
    return _preservation_table(caption, "model", rows, [_training(row) for row in rows])


def _preservation_table(
    caption: str, first: str, rows: Sequence[Json], names: Sequence[str]
) -> Table:
    shared = has_shared_accuracy(rows)
    columns = {name: of for name, of in PRESERVATION.items() if shared or name != SHARED}
    lines = [
        {first: name, "verdict": _verdict(row), **_titled(row, columns)}
        for row, name in zip(rows, names, strict=True)
    ]
    return Table.of(caption, lines, words=2)


def _training(row: Json) -> str:
    seed = row.get("seed")
    return row["label"] if seed is None else f"{row['label']}, training seed {seed}"


def _name(row: Json) -> str:
    """References are in brackets."""
    return marked(row, readable(row["label"])) if "method" in row else f"({row['label']})"


def _verdict(row: Json) -> Cell | str:
    """With the sign of each; with a colour where all seeds agree."""
    if not has_result(row):
        return f"{NO_RESULT}: {row['failure']}" if row.get("failure") else NO_RESULT
    verdicts = verdicts_of(row)
    if len(set(verdicts)) == 1:
        return verdict_cell(verdicts[0])
    return verdict_words([with_sign(verdict) for verdict in verdicts])


def retraining_seconds(document: Json) -> float:
    """CPU seconds of retraining: the mean over the oracles."""
    return fmean(row["cpu_seconds"] for row in document["references"] if is_oracle(row))


def cost_table(document: Json) -> Table:
    """What each method cost, and its share of the cost of retraining."""
    retraining = retraining_seconds(document)
    rows = [_cost_row(row, retraining) for row in document["methods"]]
    return Table.of("Cost, mean over seeds", rows)


def _cost_row(row: Json, retraining: float) -> dict[str, str]:
    texts = _titled(row, COST)
    seconds, share = NO_RESULT, ""
    if has_result(row):
        seconds, share = texts["CPU seconds"], f"{amount(100 * row['cpu_seconds'] / retraining)} %"
    first = {"method": _name(row), "CPU seconds": seconds, "of retraining": share}
    return first | texts | {"CPU seconds": seconds}


def attack_tables(document: Json) -> list[Table]:
    """One for each attack: AUC by surface, and the difference to the oracles."""
    tests = {_name(row): row["tests"] for row in document["references"]}
    for row in document["methods"]:
        own = [cell for cell in document["cells"] if cell["label"] == row["label"]]
        tests[_name(row)] = [test for cell in own for test in cell["tests"]]
    tests = {name: of for name, of in tests.items() if of}
    attacks = dict.fromkeys(test["attack"] for of in tests.values() for test in of)
    return [_attack_table(attack, tests) for attack in attacks]


def surfaces_in(document: Json) -> list[str]:
    """The surfaces that were attacked, in the order of the tables."""
    return _tested(document, "surface")


def attacks_in(document: Json) -> list[str]:
    """The attacks, in the order of the tables."""
    return _tested(document, "attack")


def _tested(document: Json, part: str) -> list[str]:
    tests = (test for row in document["references"] for test in row["tests"])
    return list(dict.fromkeys(test[part] for test in tests))


def _attack_table(attack: str, tests: Mapping[str, Sequence[Json]]) -> Table:
    """`tests` are those of each model, over all its seeds."""
    surfaces = dict.fromkeys(test["surface"] for of in tests.values() for test in of)
    lines = [
        {"model": name} | {surface: _auc_cell(of, attack, surface) for surface in surfaces}
        for name, of in tests.items()
    ]
    caption = f"AUC of the attack '{attack}' (difference to the oracles), mean over seeds"
    return Table.of(caption, lines)


def _auc_cell(tests: Sequence[Json], attack: str, surface: str) -> str:
    own = [test for test in tests if (test["attack"], test["surface"]) == (attack, surface)]
    if not own:
        return ""
    value = fmean(test["figures"]["candidate"]["value"] for test in own)
    difference = fmean(test["difference"]["value"] for test in own)
    return f"{number(value)} ({signed(difference)})"
