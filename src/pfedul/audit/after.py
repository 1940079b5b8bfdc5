"""An audit after the fact: with what a removal left, and samples that the auditor brings.

Gone with the removal are the tensors before it and the target's personal part. So the
untouched model and the stale head cannot be looked at, and whether there was anything
to forget is not known. What can still be asked is whether those who stay, or a fresh
probe on their features, tell the target's samples from others better than after
retraining without it.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pfedul.audit.ask.answers import ask_all, surfaces_of
from pfedul.audit.ask.samples import check_enough, draw_exam
from pfedul.audit.brought import check_labels
from pfedul.audit.evidence.document import circumstances, client_figures, examined, removal_part
from pfedul.audit.judge.case import Case, Examiner
from pfedul.audit.levels import Level
from pfedul.audit.models import Retrained, trained_oracles
from pfedul.audit.rehearsal import Price, level_words, price, shown_path, spent_since
from pfedul.audit.state import state_of
from pfedul.data import ClientData, parse_backdoor
from pfedul.errors import PfedulError
from pfedul.protocol import OnStage
from pfedul.run.retrained import Recipe, oracle_recipes
from pfedul.store import audits as ledger_of
from pfedul.store import requests
from pfedul.store.paths import SHARED_FILE
from pfedul.unlearn.outcome import read_outcome

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
    outcome = read_outcome(federation.store.ledger, asked.request)
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
    exam = draw_exam(asked.data, bench.data, federation.settings.seed, backdoor)
    states = {"candidate": state_of(federation, federation.clients, {})}
    states |= {oracle.recipe.name: oracle.state for oracle in oracles}
    surfaces = surfaces_of(bench, without=tuple(GONE))
    answers = ask_all(bench, exam, states, surfaces, tell)
    retrained = [answers[oracle.recipe.name] for oracle in oracles]
    target = " and ".join(asked.request.targets)
    return Case(exam, surfaces, answers["candidate"], retrained, target=target)


def _shared_now(asked: Inquiry) -> str:
    sql = "SELECT sha256 FROM files WHERE path = ?"
    return str(asked.federation.store.ledger.value(sql, SHARED_FILE))
