"""What can be seen before a removal: its plan, and every client's share in every layer."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from pfedul.base.tensors import same_weights
from pfedul.errors import PfedulError
from pfedul.protocol import Reply, Task
from pfedul.run.run import Run
from pfedul.server.checks import check_work
from pfedul.unlearn.checks import check_targets
from pfedul.unlearn.options import ForgetOptions, usual_rounds
from pfedul.unlearn.pfedul.method import plan_for, stored_fisher, why_no_record
from pfedul.unlearn.pfedul.result import Plan
from pfedul.unlearn.pfedul.scores import layer_scores
from pfedul.unlearn.repair import statement


def plan_of(run: Run, targets: Sequence[str], options: ForgetOptions) -> Plan:
    """What `forget` would do to the shared tensors; see `Federation.plan`."""
    check_targets(run, targets)
    if not options.entry.does.plans:
        raise PfedulError(
            f"The method '{options.method}' makes no plan to show; 'pfedul methods' "
            "says what it does, and 'pfedul rehearse' tries it out."
        )
    plan = plan_for(run, targets, options.plan_options(run.settings.seed))
    return replace(plan, notes=(*plan.notes, *_what_follows(run, plan, options)))


def _what_follows(run: Run, plan: Plan, options: ForgetOptions) -> tuple[str, ...]:
    """Repair rounds, after which the statement about the corrected tensors may no longer hold."""
    rounds = options.settled(usual_repair(run, plan.targets)).repairs
    corrected = not same_weights(plan.apply(run.shared), run.shared)
    excludes = options.excludes
    if not rounds or (excludes and not corrected):
        return ()
    return (f"then {statement(rounds, options.repair_kind, excludes and corrected)}",)


def usual_repair(run: Run, targets: Sequence[str]) -> int:
    """Rounds of repair after `exclude`, by the share of samples in the targets' own clusters.

    None where nobody is left in these.
    """
    groups = run.clusters.with_any(targets, run.clients).values()
    samples = {c: run.members[c].train_samples for group in groups for c in group}
    share = sum(samples[target] for target in targets) / sum(samples.values())
    if share == 1:
        return 0
    return usual_rounds(share, run.bench.personalization.shares_head)


def score_table(run: Run) -> dict[str, list[float]]:
    """Every recorded client's score on every shared layer (Eq. 6)."""
    scores = known_scores(run)
    if not scores:
        raise PfedulError(why_no_record(run, "fisher"))
    return scores


def known_scores(run: Run) -> dict[str, list[float]]:
    """The same, but empty if no Fisher record was kept."""
    layers, fisher = run.bench.split.layers, stored_fisher(run)
    if not fisher.clients:
        return {}
    total = fisher.total()
    return {client: layer_scores(fisher.of(client), total, layers) for client in fisher.clients}


def exact_scores(run: Run, targets: Sequence[str]) -> list[float]:
    """The targets' scores from the exact Fisher (Eq. 4), which reads every client's data."""
    check_targets(run, targets)

    def check(reply: Reply, client: str) -> str | None:
        return check_work(reply, client, run.members[client].train_samples, {})

    task = Task("exact-fisher", run.rounds)
    norms = {r.client: r.metrics for r in run.ask(task, run.clients, run.shared, check)}
    missing = [client for client in run.clients if client not in norms]
    if missing:
        raise PfedulError(
            f"The exact Fisher needs every client, and {', '.join(missing)} gave no usable answer; "
            "see 'pfedul status'."
        )
    scores = []
    for layer in run.bench.split.layers:
        total = sum(of_client[layer.name] for of_client in norms.values())
        own = sum(norms[target][layer.name] for target in targets)
        scores.append(own / total if total else 0.0)
    return scores
