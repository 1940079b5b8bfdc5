"""An audit after the fact: with what a removal left, and samples that the auditor brings.

Gone with the removal are the tensors before it and the target's personal part. So the
untouched model and the stale head cannot be looked at, and whether there was anything
to forget is not known. What can still be asked is whether those who stay, or a fresh
probe on their features, tell the target's samples from others better than after
retraining without it.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import torch

from pfedul.audit.ask.answers import ask_all, surfaces_of
from pfedul.audit.ask.samples import check_enough, draw_samples
from pfedul.audit.evidence.document import circumstances, client_figures, examined, removal_part
from pfedul.audit.judge.case import Case, Examiner
from pfedul.audit.models import Retrained, trained_oracles
from pfedul.audit.rehearsal import Level, Price, level_words, price, shown_path, spent_since
from pfedul.audit.state import state_of
from pfedul.data import ClientData, parse_backdoor
from pfedul.data.datasets.npz import read_parts
from pfedul.errors import PfedulError
from pfedul.protocol import OnStage, Workbench
from pfedul.run.retrained import Recipe, oracle_recipes
from pfedul.store import audits as ledger_of
from pfedul.store import requests
from pfedul.store.paths import SHARED_FILE

if TYPE_CHECKING:
    from pfedul.federation import Federation

GONE = {"stale": "the target's personal part was erased with the removal"}
_TRAINED_ON = (
    "The run was trained on after the removal: this is about its tensors now, not about those "
    "of the removal."
)


@dataclass(frozen=True)
class Inquiry:
    """An audit of a removal that was honoured; `data` are the targets' samples."""

    federation: Federation
    request: requests.Request
    data: Mapping[str, ClientData]
    level: Level

    @property
    def oracles(self) -> list[Recipe]:
        return oracle_recipes(self.federation, (), self.level.oracles)

    def check(self) -> None:
        """Refuse what cannot be audited, in one sentence, before anything is trained."""
        back = [target for target in self.request.targets if target in self.federation.clients]
        if back:
            raise PfedulError(
                f"'{back[0]}' was admitted again since, so that its samples are trained on; what "
                f"request {self.request.number} left can no longer be told apart."
            )
        check_enough(self.data)
        check_labels(self.federation.bench, self.data)

    def price(self) -> Price:
        return price(self.federation, self.oracles)

    def command(self) -> str:
        """How to do the same again in a shell."""
        run = shown_path(self.federation.store.path)
        which = f"--request {self.request.number} --target-data DATA"
        return f"pfedul audit {run} {which} {level_words(self.level)}"


def honoured_request(federation: Federation, number: int | None) -> requests.Request:
    """The removal to audit: the newest one, or the one that is asked for."""
    done = [r for r in requests.read_requests(federation.store.ledger) if r.status == requests.DONE]
    fitting = [request for request in done if number in (None, request.number)]
    if not fitting:
        which = "No removal" if number is None else f"No removal with the number {number}"
        raise PfedulError(
            f"{which} has been honoured in this run; what a removal would leave is audited "
            "with 'pfedul rehearse'."
        )
    return fitting[-1]


def audit_after(asked: Inquiry, on_stage: OnStage | None = None) -> ledger_of.Audit:
    """Train or take oracles, measure, and write down what was found."""
    started = time.process_time()
    asked.check()
    tell = on_stage or (lambda _stage, _done, _of: None)
    federation = asked.federation
    oracles = trained_oracles(federation, (), asked.oracles, tell)
    examiner = Examiner(_case(asked, oracles, tell))
    tell("attacks", 0, 1)
    found = examined(examiner, [], federation.bench, GONE)
    tell("attacks", 1, 1)
    outcome = requests.read_outcome(federation.store.ledger, asked.request)
    evidence = {
        **circumstances(federation, ledger_of.AFTER_THE_FACT, asked.command(), asked.level.name),
        **removal_part(federation, outcome, oracles),
        "hashes": {
            "shared_before": outcome.shared_sha256_before,
            "shared_after": _shared_now(asked),
            "state_after": federation.store.state_digest(),
        },
        **found,
        "relearn": None,
    }
    if outcome.shared_sha256_after != _shared_now(asked):
        evidence["verdict"]["limits"].append(_TRAINED_ON)
    evidence["cost"]["rehearsal_cpu_seconds"] = spent_since(started, federation, *oracles)
    clients = client_figures(federation.clients, outcome, oracles, examiner, {})
    return ledger_of.write_audit(federation.store.ledger, evidence, clients)


def _case(asked: Inquiry, oracles: list[Retrained], tell: OnStage) -> Case:
    federation, bench = asked.federation, asked.federation.bench
    planted = federation.settings.plant_backdoor
    backdoor = None if planted is None else parse_backdoor(planted)
    samples = draw_samples(asked.data, bench.data, federation.settings.seed, backdoor)
    states = {"candidate": state_of(federation, federation.clients, {})}
    states |= {oracle.recipe.name: oracle.state for oracle in oracles}
    surfaces = surfaces_of(bench, without=tuple(GONE))
    answers = ask_all(bench, samples, states, surfaces, tell)
    retrained = [answers[oracle.recipe.name] for oracle in oracles]
    target = " and ".join(asked.request.targets)
    return Case(samples, surfaces, answers["candidate"], retrained, target=target)


def _shared_now(asked: Inquiry) -> str:
    sql = "SELECT sha256 FROM files WHERE path = ?"
    return str(asked.federation.store.ledger.value(sql, SHARED_FILE))


FROM_RUN = "run"
"""In the place of a file: as the data set of the run deals them to the target."""


def brought_data(
    federation: Federation, targets: Sequence[str], given: Sequence[str]
) -> dict[str, ClientData]:
    """The targets' samples, from `[ID=]FILE.npz` each, or from the run's own data set."""
    if list(given) == [FROM_RUN]:
        return {target: _from_run(federation, target) for target in targets}
    files = _files(targets, given)
    return {target: _in_form(federation, read_parts(files[target])) for target in targets}


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


def _from_run(federation: Federation, target: str) -> ClientData:
    if target not in federation.known_data:
        raise PfedulError(
            f"The data set of this run has no samples of '{target}' any more; bring them with "
            "--target-data FILE.npz."
        )
    return federation.known_data[target]


def _in_form(federation: Federation, data: ClientData) -> ClientData:
    """In the model's type; refused where the inputs are not of the run's shape."""
    someone = next(iter(federation.bench.data.values())).train
    known, _ = someone.batch(torch.zeros(1, dtype=torch.int64))
    data = ClientData(data.train.as_type(known.dtype), data.test.as_type(known.dtype))
    for part in (data.train, data.test):
        if not len(part):
            raise PfedulError(
                "The samples that were brought have an empty part; bring samples that were "
                "trained on and samples that were not."
            )
        found, _ = part.batch(torch.zeros(1, dtype=torch.int64))
        if found.shape[1:] != known.shape[1:]:
            raise PfedulError(
                f"The samples that were brought have the shape {tuple(found.shape[1:])}, those "
                f"of this run {tuple(known.shape[1:])}; bring them as the model takes them."
            )
    return data


@torch.no_grad()
def check_labels(bench: Workbench, data: Mapping[str, ClientData]) -> None:
    """Refuse labels for which the model has no answer."""
    model = bench.build_model().eval()
    one = torch.zeros(1, dtype=torch.int64)
    for target, parts in data.items():
        classes = model(parts.train.batch(one)[0]).shape[1]
        for part in (parts.train, parts.test):
            largest = int(part.batch(torch.arange(len(part)))[1].max())
            if largest >= classes:
                raise PfedulError(
                    f"The samples of '{target}' have the label {largest}, but the model of this "
                    f"run knows {classes} classes, 0 to {classes - 1}."
                )
