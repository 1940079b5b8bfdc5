"""An audit after the fact: with what a removal left, and samples that the auditor brings.

The removal erased the tensors before it and the target's personal part. So the untouched
model and the stale head cannot be tested, and whether there was anything to forget is not
known. What can still be tested is whether the remaining clients' models, or a fresh probe
on their features, distinguish the target's samples from others better than after retraining
without it. Tested are the run's tensors as they are now, against oracles without anybody
who has left since: later training and later removals are named among the limits.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import torch

from pfedul.audit.ask.answers import ask_all, surfaces_of
from pfedul.audit.ask.samples import check_enough
from pfedul.audit.ask.surfaces import FITTED
from pfedul.audit.evidence.document import circumstances, client_figures, examined, removal_part
from pfedul.audit.judge.case import Case, Examiner
from pfedul.audit.levels import Level
from pfedul.audit.models import Retrained, samples_of, trained_oracles
from pfedul.audit.rehearsal import Price, level_words, price, shown_path, spent_since
from pfedul.audit.state import state_of
from pfedul.base.inputs import Inputs, answer, named_tensors, shape_of
from pfedul.data.datasets.npz import read_parts
from pfedul.data.own import own_clients
from pfedul.data.samples import ClientData, batch_of, collates
from pfedul.errors import PfedulError
from pfedul.protocol import OnStage, Workbench
from pfedul.run.assembly import OwnData, with_targets
from pfedul.run.retrained import Recipe, oracle_recipes
from pfedul.run.run import Run
from pfedul.store.audits import AFTER_THE_FACT, Audit, write_audit
from pfedul.store.paths import SHARED_FILE
from pfedul.store.requests import DONE, Request, read_requests
from pfedul.store.tables import digest_of
from pfedul.tasks.collate import MASK
from pfedul.unlearn.outcome import Outcome, read_outcome

_FIRST = torch.zeros(1, dtype=torch.int64, device="cpu")  # the index of the first sample
GONE = {"stale": "the target's personal part was erased with the removal"}


@dataclass(frozen=True)
class Inquiry:
    """An audit of a removal that was honoured; `data` are the targets' samples."""

    run: Run
    request: Request
    data: Mapping[str, ClientData]
    level: Level

    @property
    def oracles(self) -> list[Recipe]:
        return oracle_recipes(self.run, (), self.level.oracles)

    def check(self) -> None:
        """Refuse what cannot be audited, in one sentence, before anything is trained."""
        back = [target for target in self.request.targets if target in self.run.clients]
        if back:
            raise PfedulError(
                f"'{back[0]}' was admitted again since, so its samples are trained on; what "
                f"request {self.request.number} left can no longer be distinguished."
            )
        check_enough(self.data)
        check_labels(self.run.bench, self.data)

    def price(self) -> Price:
        return price(self.run, self.oracles)

    def command(self) -> str:
        """The same on the command line."""
        run = shown_path(self.run.store.path)
        which = f"--request {self.request.number} --target-data DATA"
        return f"pfedul audit {run} {which} {level_words(self.level)}"


def honoured_request(run: Run, number: int | None) -> Request:
    """The removal to audit: the newest one, or the one with this number."""
    done = [request for request in read_requests(run.store.ledger) if request.status == DONE]
    fitting = [request for request in done if number in (None, request.number)]
    if not fitting:
        which = "No removal" if number is None else f"No removal with the number {number}"
        raise PfedulError(
            f"{which} has been honoured in this run; what a removal would leave is audited "
            "with 'pfedul rehearse'."
        )
    return fitting[-1]


def audit_after(inquiry: Inquiry, on_stage: OnStage | None = None) -> Audit:
    """Train or take oracles, measure, and write the result into the ledger."""
    started = time.process_time()
    inquiry.check()
    tell = on_stage or (lambda _stage, _done, _of: None)
    run, ledger = inquiry.run, inquiry.run.store.ledger
    oracles = trained_oracles(run, (), inquiry.oracles, tell)
    examiner = Examiner(_case(inquiry, oracles, tell))
    outcome = read_outcome(ledger, inquiry.request)
    evidence = {
        **circumstances(run, AFTER_THE_FACT, inquiry.command(), inquiry.level.name),
        **removal_part(run, outcome, oracles),
        "hashes": {
            "shared_before": outcome.shared_sha256_before,
            "shared_after": digest_of(ledger, SHARED_FILE),
            "state_after": run.store.state_digest(),
        },
        **examined(examiner, [], run.bench, gone=GONE, on_stage=tell),
        "relearn": None,
    }
    evidence["verdict"]["limits"] += changed_since(run, inquiry.request, outcome)
    evidence["cost"]["rehearsal_cpu_seconds"] = spent_since(started, run, *oracles)
    clients = client_figures(run.clients, outcome, oracles, examiner, {})
    return write_audit(ledger, evidence, clients)


def _case(inquiry: Inquiry, oracles: list[Retrained], tell: OnStage) -> Case:
    run, bench = inquiry.run, inquiry.run.bench
    samples = samples_of(run, inquiry.data)
    states = {"candidate": state_of(run, run.clients, {})}
    states |= {oracle.recipe.name: oracle.state for oracle in oracles}
    surfaces = surfaces_of(bench, without=(*GONE, FITTED.name))
    answers = ask_all(bench, samples, states, surfaces, tell)
    retrained = [answers[oracle.recipe.name] for oracle in oracles]
    target = " and ".join(inquiry.request.targets)
    return Case(samples, surfaces, answers["candidate"], retrained, target=target)


def changed_since(run: Run, request: Request, outcome: Outcome) -> list[str]:
    """A limit of the verdict, if the run is not as the removal left it.

    Hashes before and after each later removal tell whether there was training in between.
    """
    ledger = run.store.ledger
    later = [r for r in read_requests(ledger) if r.number > request.number and r.outcome]
    outcomes = [outcome, *(read_outcome(ledger, removal) for removal in later)]
    left = [one.shared_sha256_after for one in outcomes]
    then = [*(one.shared_sha256_before for one in outcomes[1:]), digest_of(ledger, SHARED_FILE)]
    changes = ["trained on"] if left != then else []
    changes += [f"changed by request {removal.number}" for removal in later]
    return [
        f"The run was {' and '.join(changes)} after the removal: this is about its tensors now, "
        "not about those of the removal."
    ][: len(changes)]


FROM_RUN = "run"
"""Instead of a file: the samples that the run's own data set gives the target."""


def brought_data(run: Run, targets: Sequence[str], given: Sequence[str]) -> dict[str, ClientData]:
    """The targets' samples, from `[ID=]FILE.npz` each, or from the run's own data set."""
    if list(given) != [FROM_RUN]:
        files = _files(targets, given)
        task, whose = run.bench.training.task, "the samples that were brought"
        parts = {target: with_targets(task, whose, read_parts(files[target])) for target in targets}
        return {target: _in_form(run, parts[target]) for target in targets}
    return _runs_own(run, targets, "bring them with --target-data FILE.npz")


def given_data(run: Run, targets: Sequence[str], own: OwnData | None) -> dict[str, ClientData]:
    """The targets' samples as they are given in Python; None: from the run's own data set."""
    if own is None:
        given = ", ".join(f"'{target}': (train, test)" for target in targets)
        return _runs_own(run, targets, f"give them, audit(data={{{given}}})")
    missing = [target for target in targets if target not in own]
    if missing:
        raise PfedulError(f"The data that were given have no samples of '{missing[0]}'; add them.")
    chosen = {target: own[target] for target in targets}
    clients = own_clients(chosen, run.bench.training.task).clients
    return {target: _in_form(run, clients[target]) for target in targets}


def _runs_own(run: Run, targets: Sequence[str], advice: str) -> dict[str, ClientData]:
    for target in targets:
        if target not in run.known_data:
            raise PfedulError(
                f"The data set of this run has no samples of '{target}' any more; {advice}."
            )
    return {target: run.known_data[target] for target in targets}


def _files(targets: Sequence[str], given: Sequence[str]) -> dict[str, Path]:
    if len(targets) == len(given) == 1 and "=" not in given[0]:
        return {targets[0]: Path(given[0])}
    named: Mapping[str, str] = dict(item.split("=", 1) for item in given if "=" in item)
    for target in targets:
        if target not in named:
            raise PfedulError(
                f"Bring the samples of '{target}' with --target-data {target}=FILE.npz, or say "
                f"--target-data {FROM_RUN} where the run's own data set still has them."
            )
    return {target: Path(named[target]) for target in targets}


def _in_form(run: Run, data: ClientData) -> ClientData:
    """In the model's type; refused where the inputs are not of the run's shape."""
    someone = next(iter(run.bench.data.values())).train
    known, _ = someone.batch(_FIRST)
    any_length = MASK in named_tensors(known) or collates(someone)
    data = ClientData(*(part.as_type(_type_of(known)) for part in (data.train, data.test)))
    for part in (data.train, data.test):
        if not len(part):
            raise PfedulError(
                "The samples that were brought have an empty part; bring samples that were "
                "trained on and samples that were not."
            )
        found, _ = part.batch(_FIRST)
        if _form(found, any_length) != _form(known, any_length):
            raise PfedulError(
                f"The samples that were brought have the shape {shape_of(found)}, those of this "
                f"run {shape_of(known)}; bring them as the model takes them."
            )
    return data


def _type_of(x: Inputs) -> torch.dtype:
    """That of its inputs which are not whole numbers."""
    kinds = [t.dtype for t in named_tensors(x).values() if t.is_floating_point()]
    return kinds[0] if kinds else torch.get_default_dtype()


def _form(x: Inputs, any_length: bool) -> dict[str, object]:
    """What brought inputs must have in common with the run's."""
    named = named_tensors(x)
    if any_length:
        return {name: (tensor.ndim, tensor.dtype) for name, tensor in named.items()}
    return {name: tensor.shape[1:] for name, tensor in named.items()}


@torch.no_grad()
def check_labels(bench: Workbench, data: Mapping[str, ClientData]) -> None:
    """Refuse labels for which the model has no answer."""
    model, task = bench.build_model().eval(), bench.training.task
    for target, parts in data.items():
        classes = answer(model, parts.train.batch(_FIRST)[0]).shape[-1]
        for part in (parts.train, parts.test):
            largest = task.outputs(batch_of(part)[1]) - 1
            if largest >= classes:
                raise PfedulError(
                    f"The samples of '{target}' have the label {largest}, but the model of this "
                    f"run knows {classes} classes, 0 to {classes - 1}."
                )
