"""Scores of the attacks that score sample by sample, on what models answered on a surface.

RMIA compares a model with reference models that never saw the sample: oracles. An oracle
cannot be its own reference, so each is left out in turn: in the fold of oracle k the others
are the references, for oracle k itself and for every model compared with it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from pfedul.audit.ask.answers import Answers
from pfedul.audit.attacks.base import Attack
from pfedul.audit.judge.placements import Scores


@dataclass
class ScoreBook:
    """Scores of models; none is computed twice."""

    _known: dict[tuple[object, ...], Scores] = field(default_factory=dict)

    def of(
        self, attack: Attack, surface: str, model: Answers, references: Sequence[Answers] = ()
    ) -> Scores:
        """Scores of one model, with one choice of references: a single fold."""
        used = tuple(references) if attack.needs_references else ()
        key = (attack.name, surface, model, *used)  # holds them: ids would be given out again
        if key not in self._known:
            self._known[key] = _score(attack, surface, model, used)
        return self._known[key]

    def of_named(
        self, attack: Attack, surface: str, name: str, models: Mapping[str, Answers]
    ) -> Scores:
        """Scores of one of several models; the oracles among the others are its references."""
        others = [m for one, m in models.items() if one != name and one.startswith("oracle ")]
        return self.of(attack, surface, models[name], others)

    def folded(
        self, attack: Attack, surface: str, model: Answers, oracles: Sequence[Answers]
    ) -> Scores:
        """Scores of a model compared with oracles: one fold for each oracle that is left out."""
        if not attack.needs_references:
            return self.of(attack, surface, model)
        folds = [self.of(attack, surface, model, others) for others in _without_each(oracles)]
        return Scores(
            np.concatenate([fold.members for fold in folds]),
            np.concatenate([fold.nonmembers for fold in folds]),
        )

    def of_oracles(self, attack: Attack, surface: str, oracles: Sequence[Answers]) -> list[Scores]:
        """Scores of each oracle, with the others as its references."""
        return [
            self.of(attack, surface, oracle, others)
            for oracle, others in zip(oracles, _without_each(oracles), strict=True)
        ]


def _score(attack: Attack, surface: str, model: Answers, references: Sequence[Answers]) -> Scores:
    assert attack.score is not None
    pairs = [
        attack.score(view, [other.views[surface][place] for other in references])
        for place, view in enumerate(model.views[surface])
    ]
    inside, outside = (np.stack(part)[None] for part in zip(*pairs, strict=True))
    return Scores(inside, outside)


def _without_each(oracles: Sequence[Answers]) -> list[list[Answers]]:
    return [[other for other in oracles if other is not oracle] for oracle in oracles]
