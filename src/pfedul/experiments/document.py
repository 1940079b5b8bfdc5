"""The result of an experiment as plain data: means over trainings, what was printed, what lacks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from statistics import fmean, stdev
from typing import Any

from pfedul.experiments.base import Experiment, Group, Row
from pfedul.experiments.cases import Results, Scale, Shelf, case_of, rows_of, settings_of
from pfedul.experiments.claims import findings
from pfedul.experiments.columns import Column
from pfedul.experiments.resolution import mia_errors
from pfedul.experiments.scales import SCALES

Document = dict[str, Any]


def document_of(experiment: Experiment, scale: Scale, shelf: Shelf) -> Document:
    """All figures of an experiment that are there."""
    parts = [_group(experiment, group, scale, shelf) for group in experiment.groups]
    document = _document(experiment, scale, parts)
    return {**document, "claims": findings(document, experiment.claims)}


def _document(experiment: Experiment, scale: Scale, parts: Sequence[Document]) -> Document:
    return {
        "experiment": experiment.name,
        "summary": experiment.summary,
        "source": experiment.source,
        "scale": scale.name,
        "scale_summary": SCALES[scale.name],
        "oracles": scale.oracles,
        "seeds": scale.seeds,
        "columns": [{"name": c.name, "title": c.title, "form": c.form} for c in experiment.shown],
        "rows": [{"name": r.name, "method": r.method, "note": r.note} for r in experiment.rows],
        "groups": parts,
        "picture": None if experiment.picture is None else asdict(experiment.picture),
        "notes": list(experiment.notes),
        "missing": sum(group["missing"] for group in parts),
    }


def _group(experiment: Experiment, group: Group, scale: Scale, shelf: Shelf) -> Document:
    heading: Document = {"part": group.part, "name": group.name}
    if experiment.direct is not None:
        settings = settings_of(group, scale.name)
        counted = {row.name: [experiment.direct(group, row, settings)] for row in experiment.rows}
        return {
            **heading,
            "trainings": 0,
            "missing": 0,
            "cells": _cells(experiment, group, counted),
        }
    results = [shelf.read(case_of(group, scale, seed)) for seed in range(scale.seeds)]
    known = [one for one in results if one is not None]
    figures = {row.name: _figures(row, known) for row in experiment.rows}
    missing = sum(not one or not _whole(one, experiment) for one in results)
    return {
        **heading,
        "trainings": len(known),
        "missing": missing,
        "cells": _cells(experiment, group, figures),
        "mia_errors": mia_errors(known) if "mia" in experiment.columns else [],
        "failures": _failures(experiment, known),
    }


def _whole(results: Results, experiment: Experiment) -> bool:
    return set(experiment.methods) <= set(results["methods"])


def _figures(row: Row, results: Sequence[Results]) -> list[Mapping[str, float]]:
    """The figures of a row, one of each training: of retraining the mean over its oracles."""
    return [_mean(rows_of(one, row.method)) for one in results if rows_of(one, row.method)]


def _mean(rows: Sequence[Mapping[str, Any]]) -> Mapping[str, Any]:
    """One row of several oracles: figures are means, and figures within figures as well."""
    if len(rows) == 1:
        return rows[0]
    return {name: _mean_value([row.get(name) for row in rows]) for name in rows[0]}


def _mean_value(values: Sequence[Any]) -> Any:
    if all(isinstance(value, Mapping) for value in values):
        return _mean(values)
    if all(_is_interval(value) for value in values):
        return _mean_interval(values)
    numbers = [value for value in values if isinstance(value, int | float)]
    return fmean(numbers) if len(numbers) == len(values) else values[0]


def _is_interval(value: Any) -> bool:
    both = isinstance(value, list) and len(value) == 2
    return both and all(isinstance(end, int | float) for end in value)


def _mean_interval(intervals: Sequence[Sequence[float]]) -> list[float]:
    return [fmean(ends) for ends in zip(*intervals, strict=True)]


def _cells(
    experiment: Experiment, group: Group, figures: Mapping[str, Sequence[Mapping[str, Any]]]
) -> Document:
    """Row -> column -> the figure."""
    return {
        row.name: {
            column.name: _cell(experiment, group, row, column, figures[row.name])
            for column in experiment.shown
        }
        for row in experiment.rows
    }


def _cell(
    experiment: Experiment,
    group: Group,
    row: Row,
    column: Column,
    figures: Sequence[Mapping[str, Any]],
) -> Document:
    values = [value for one in figures if (value := column.value(one)) is not None]
    intervals = [one[column.interval] for one in figures if one.get(column.interval)]
    return {
        "mean": fmean(values) if values else None,
        "deviation": stdev(values) if len(values) > 1 else None,
        "interval": _mean_interval(intervals) if intervals else None,
        "trainings": len(values),
        "printed": experiment.printed.get((group.part, group.name, row.name, column.name)),
    }


def _failures(experiment: Experiment, results: Sequence[Results]) -> dict[str, str]:
    """Why rows came to no result, by row."""
    reasons = {}
    for row in experiment.rows:
        failures = [one["methods"].get(row.method, {}).get("failure") for one in results]
        if any(failures):
            reasons[row.name] = next(filter(None, failures))
    return reasons
