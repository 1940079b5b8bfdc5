"""The public door: a federation and its run folder, one line for each verb."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self, Unpack

from torch import nn

from pfedul.base.result import Result
from pfedul.evaluation import Evaluation
from pfedul.keywords import ForgetKeywords, LaterKeywords, SettingsKeywords
from pfedul.report.history import History, read_history
from pfedul.run.admission import admit
from pfedul.run.assembly import ModelFactory, OwnData
from pfedul.run.callbacks import Callback, told
from pfedul.run.export import export, whole_model
from pfedul.run.opening import create_run, open_run
from pfedul.run.run import Run
from pfedul.run.training import train
from pfedul.status import Status, read_status
from pfedul.store.audits import Audit
from pfedul.store.requests import SIGNED
from pfedul.store.tables import evaluation_rows
from pfedul.unlearn.asked import Asked
from pfedul.unlearn.inspection import exact_scores, plan_of, score_table
from pfedul.unlearn.methods import client_work, with_records_of_methods
from pfedul.unlearn.options import named_options
from pfedul.unlearn.outcome import Outcome
from pfedul.unlearn.pfedul.result import Plan
from pfedul.unlearn.recalibration import recalibrate_missing
from pfedul.unlearn.removal import forget
from pfedul.unlearn.witness import Examine

if TYPE_CHECKING:
    from pfedul.compare.result import ComparisonResult


class Federation(Run, Result):
    """A personalised federation in a run folder. Close it, or use it in a `with` block.

    Make one with `create`, open it again with `open`.
    """

    def _facts(self) -> dict[str, Any]:
        return {
            "run": str(self.store.path),
            "rounds": self.rounds,
            "clients": len(self.clients),
            "personalization": self.settings.personalization,
            "data": self.settings.data,
            "model": self.settings.model,
            "closed": True if self.store.ledger.closed else None,
        }

    def _rows(self) -> list[dict[str, Any]]:
        return [
            {"client": name, "train": member.train_samples, "test": member.test_samples}
            for name, member in sorted(self.members.items())
        ]

    @classmethod
    def create(
        cls,
        run: str | Path,
        *,
        data: str | OwnData = "digits",
        model: str | ModelFactory = "cnn",
        **settings: Unpack[SettingsKeywords],
    ) -> Self:
        """A new federation in the folder `run`.

        `data` names a dataset, or is `{client: (train, test)}` with a pair of arrays
        (inputs, labels) or a map-style Dataset for each part. `model` names a model,
        or is a function without arguments that returns an `nn.Module`. Both may also name a
        function, `package.module:function:key=value` (docs/own-code.md). The other
        settings are those of `pfedul train`: `personalization="ditto"`, `lr=0.05`, ...
        """
        values = with_records_of_methods(settings)
        return create_run(cls, run, data, model, values, client_work())

    @classmethod
    def open(
        cls,
        run: str | Path,
        *,
        data: str | OwnData | None = None,
        model: str | ModelFactory | None = None,
        read_only: bool = False,
        **later: Unpack[LaterKeywords],
    ) -> Self:
        """An existing federation, at its last whole round.

        Data and model that were given in Python are given again, or functions named that
        make them; those that the run itself names need not be. `later` holds
        settings that may change: `engine`, `workers`, `checkpoint_every`, ... With `read_only`
        nothing in the folder is changed, and another process may be at work on it: to evaluate,
        or to look at plans and scores.
        """
        settings = with_records_of_methods(later)
        return open_run(cls, run, data, model, settings, client_work(), read_only=read_only)

    def train(
        self,
        rounds: int | None = None,
        callbacks: Sequence[Callback] = (),
        evaluated: bool = True,
    ) -> History:
        """Train until the federation has had `rounds` rounds in all; those of its settings if None.

        All clients are evaluated after the last round, and as often as the settings say, unless
        `evaluated` is false.
        An interrupted training keeps every finished round. Called again, it resumes and ends
        with the same tensors, bit for bit, as if it had never stopped.
        """
        self.store.require_writing()
        with told(callbacks) as callback:
            train(self, rounds, callback, evaluated)
        return self.history()

    def evaluate(self) -> Evaluation:
        """Each client's accuracy with its personal model on its own test samples, now.

        It is noted in the ledger, unless the run was opened `read_only`.
        """
        evaluation = self.measure()
        if self.store.read_only:
            return evaluation
        self.store.ledger.write(evaluation_rows(evaluation, self.store.commits))
        return evaluation

    def history(self) -> History:
        """The learning curve so far: loss and accuracy of each round, with a `plot`."""
        return read_history(self.store.ledger)

    def status(self) -> Status:
        """The state of the run folder: rounds, clients, removals, audits, size."""
        self.store.ledger.require_open()
        return Status(read_status(self.store.path))

    def plan(self, *targets: str, **options: Unpack[ForgetKeywords]) -> Plan:
        """What `forget` would do to the shared tensors; nothing is touched."""
        return plan_of(self, targets, named_options(options))

    def forget(
        self,
        *targets: str,
        away: Sequence[str] = (),
        audit: bool = True,
        callbacks: Sequence[Callback] = (),
        by: str | None = None,
        ground: str | None = None,
        due: str | None = None,
        signed: Mapping[str, Any] | None = None,
        **options: Unpack[ForgetKeywords],
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
        wanted = named_options(options)
        with told(callbacks) as callback:
            return forget(self, targets, wanted, away, callback.on_stage, examine, asked)

    def rehearse(
        self,
        *targets: str,
        level: str | None = None,
        oracles: int | None = None,
        away: Sequence[str] = (),
        callbacks: Sequence[Callback] = (),
        **options: Unpack[ForgetKeywords],
    ) -> Audit:
        """Forget these clients on a sealed copy and audit that in full; this run stays as it is.

        `options` are those of `forget`, `level` is instant (no oracles; the default), quick,
        standard or strict. The result is written into the ledger, and holds for a later `forget`
        with the same hashes.
        """
        self.store.require_writing()
        from pfedul.audit.levels import level_of
        from pfedul.audit.rehearsal import Rehearsal, rehearse

        chosen, wanted = level_of(level, oracles), named_options(options)
        with told(callbacks) as callback:
            rehearsal = Rehearsal(self, targets, wanted, tuple(away), chosen)
            return rehearse(rehearsal, callback.on_stage)

    def audit(
        self,
        *,
        request: int | None = None,
        data: OwnData | None = None,
        level: str = "standard",
        oracles: int | None = None,
        callbacks: Sequence[Callback] = (),
    ) -> Audit:
        """Audit a removal after the fact: the newest one, or that with the number `request`.

        `data` are the samples of who was forgotten, `{client: (train, test)}`; without it, what
        the run's own data set still has of them.
        """
        self.store.require_writing()
        from pfedul.audit.after import Inquiry, audit_after, given_data, honoured_request
        from pfedul.audit.levels import level_of

        removal = honoured_request(self, request)
        samples = given_data(self, removal.targets, data)
        with told(callbacks) as callback:
            inquiry = Inquiry(self, removal, samples, level_of(level, oracles))
            return audit_after(inquiry, callback.on_stage)

    def compare(
        self,
        *targets: str,
        methods: Sequence[str] = ("all",),
        seeds: int = 1,
        oracles: int = 2,
        workers: int | None = None,
        in_turn: bool = False,
        callbacks: Sequence[Callback] = (),
    ) -> ComparisonResult:
        """Forget these clients with many methods, each in a branch of this run, and audit them.

        A method is written as for `pfedul compare`: `"federaser"`, `"fine-tune:rounds=5"`,
        `"pfedul:correction=reset,fraction=0.3"`. Finished ones are not done again.
        With `in_turn` the clients leave one after another.
        """
        self.store.require_writing()
        from pfedul.compare.result import compared

        with told(callbacks) as callback:
            return compared(self, targets, methods, seeds, oracles, workers, callback, in_turn)

    def report(
        self,
        *,
        request: int | None = None,
        format: str = "html",
        output: str | Path | None = None,
    ) -> Path:
        """Write what is known of a removal as a page (html, md, json, pdf); returns its path.

        It is about the newest removal, or that with the number `request`, and is written into
        the run folder, where the next removal erases it, or to `output`.
        """
        from pfedul.report.formats import write_report

        self.store.ledger.require_open()
        path = None if output is None else Path(output)
        return write_report(self.store.path, format, request, path, held=not self.store.read_only)

    def scores(self) -> dict[str, list[float]]:
        """Every client's contribution score on every shared layer (Eq. 6)."""
        return score_table(self)

    def exact_scores(self, *targets: str) -> list[float]:
        """The targets' scores from the exact Fisher of Eq. 4, which reads every client's data."""
        return exact_scores(self, targets)

    def model(self, client: str) -> nn.Module:
        """The whole model of a client as it is now, in evaluation mode."""
        return whole_model(self, client)

    def export(self, client: str, folder: str | Path, *, onnx: bool = False) -> list[Path]:
        """Write a client's whole model into a new folder; returns the files.

        `model.safetensors`, and `model.py` with a function `load` that returns the model. What is
        taken away is not erased when the client is forgotten.
        """
        return export(self, client, folder, onnx=onnx)

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
