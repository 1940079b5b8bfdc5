"""The public door: a federation and its run folder, one line for each verb."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Self

from pfedul.evaluation import Evaluation
from pfedul.protocol import OnStage
from pfedul.run.admission import admit
from pfedul.run.assembly import ModelFactory, OwnData
from pfedul.run.opening import create_run, open_run
from pfedul.run.run import Run
from pfedul.run.training import OnProgress, train
from pfedul.run.training import Progress as Progress
from pfedul.store.audits import Audit
from pfedul.store.requests import SIGNED
from pfedul.store.tables import evaluation_rows
from pfedul.unlearn.asked import Asked
from pfedul.unlearn.inspection import exact_scores, plan_of, score_table
from pfedul.unlearn.methods import client_work, with_records_of_methods
from pfedul.unlearn.options import ForgetOptions
from pfedul.unlearn.outcome import Outcome
from pfedul.unlearn.pfedul.result import Plan
from pfedul.unlearn.recalibration import recalibrate_missing
from pfedul.unlearn.removal import forget
from pfedul.unlearn.witness import Examine


class Federation(Run):
    """A personalised federation in a run folder. Close it, or use it in a `with` block.

    Make one with `create`, open it again with `open`.
    """

    @classmethod
    def create(
        cls,
        run: str | Path,
        *,
        data: str | OwnData = "digits",
        model: str | ModelFactory = "cnn",
        **settings: Any,
    ) -> Self:
        """A new federation in the folder `run`.

        `data` names a dataset, or is `{client: (train, test)}` with a pair of arrays
        (inputs, labels) or a map-style Dataset for each part. `model` names a model,
        or is a function without arguments that returns an `nn.Module`. The other
        settings are those of `pfedul train`: `personalization="ditto"`, `lr=0.05`, ...
        """
        values = with_records_of_methods(settings)
        return create_run(cls, run, data, model, values, client_work())

    @classmethod
    def open(
        cls,
        run: str | Path,
        *,
        data: OwnData | None = None,
        model: ModelFactory | None = None,
        read_only: bool = False,
        **later: Any,
    ) -> Self:
        """An existing federation, at its last whole round.

        Data and model that were given in Python are given again. `later` holds
        settings that may change: `engine`, `workers`, `checkpoint_every`, ... With `read_only`
        nothing in the folder is changed, and another process may be at work on it: to evaluate,
        or to look at plans and scores.
        """
        settings = with_records_of_methods(later)
        return open_run(cls, run, data, model, settings, client_work(), read_only=read_only)

    def train(
        self, rounds: int | None = None, progress: OnProgress | None = None, evaluated: bool = True
    ) -> None:
        """Train until the federation has had `rounds` rounds in all; those of its settings if None.

        All clients are evaluated after the last round, and as often as the settings say, unless
        `evaluated` is false.
        An interrupted training keeps every finished round. Called again, it resumes and ends
        with the same tensors, bit for bit, as if it had never stopped.
        """
        self.store.require_writing()
        train(self, rounds, progress, evaluated)

    def evaluate(self) -> Evaluation:
        """Each client's accuracy with its personal model on its own test samples, now.

        It is noted in the ledger, unless the run was opened `read_only`.
        """
        evaluation = self.measure()
        if self.store.read_only:
            return evaluation
        self.store.ledger.write(evaluation_rows(evaluation, self.store.commits))
        return evaluation

    def plan(self, *targets: str, **options: Any) -> Plan:
        """What `forget` would do to the shared tensors; nothing is touched."""
        return plan_of(self, targets, ForgetOptions(**options))

    def forget(
        self,
        *targets: str,
        away: Sequence[str] = (),
        audit: bool = True,
        on_stage: OnStage | None = None,
        by: str | None = None,
        ground: str | None = None,
        due: str | None = None,
        signed: Mapping[str, Any] | None = None,
        **options: Any,
    ) -> Outcome:
        """Forget these clients: correct the shared layers, erase, let the others recalibrate.

        `options` are those of `pfedul forget`: `alpha=0.5`, `correction="reset"`, ...
        Clients in `away` recalibrate later (`recalibrate`). If it is interrupted, the request
        is pending and no tensor is changed; asking again finishes it. With `audit`, what was
        forgotten is measured as well, where the targets' samples allow it (docs/audit.md).
        `by`, `ground` and `due` (YYYY-MM-DD) say who asks for it, and are kept with the request;
        so is `signed`, a request that the client's own node has signed (docs/flower.md).
        Asking again for what is done returns the outcome.
        """
        self.store.require_writing()
        examine: Examine | None = None
        if audit:
            # Imported here: attacks take a second to import, which only audits should cost.
            from pfedul.audit.instant import Witness

            examine = Witness
        asked = {**Asked(by, ground, due).as_json(), **({SIGNED: dict(signed)} if signed else {})}
        return forget(self, targets, ForgetOptions(**options), away, on_stage, examine, asked)

    def rehearse(
        self,
        *targets: str,
        level: str | None = None,
        oracles: int | None = None,
        away: Sequence[str] = (),
        on_stage: OnStage | None = None,
        **options: Any,
    ) -> Audit:
        """Forget these clients on a sealed copy and audit that in full; this run stays as it is.

        `options` are those of `forget`, `level` is instant (no oracles; the default), quick,
        standard or strict. The result is written into the ledger, and holds for a later `forget`
        with the same hashes.
        """
        self.store.require_writing()
        from pfedul.audit.rehearsal import Rehearsal, level_of, rehearse

        chosen, forgetting = level_of(level, oracles), ForgetOptions(**options)
        return rehearse(Rehearsal(self, targets, forgetting, tuple(away), chosen), on_stage)

    def scores(self) -> dict[str, list[float]]:
        """Every client's contribution score on every shared layer (Eq. 6)."""
        return score_table(self)

    def exact_scores(self, *targets: str) -> list[float]:
        """The targets' scores from the exact Fisher of Eq. 4, which reads every client's data."""
        return exact_scores(self, targets)

    def recalibrate(self) -> list[str]:
        """Recalibrate clients that were away when another was forgotten; returns who did."""
        self.store.require_writing()
        return recalibrate_missing(self)

    def admit(self, client: str, *, again: bool = False) -> None:
        """Let a client join from the next round on, with initial personal tensors.

        Its data must be among those that the federation was opened with. A client
        that was forgotten is admitted, as a new one, only with `again`.
        """
        self.store.require_writing()
        admit(self, client, again)
