"""SIFU: back to the last model that the target hardly touched, noise, and rounds without it.

Fraboni et al., AISTATS 2024. Psi(n, u) bounds how far client u moved model n; T_u is the
last n with Psi(n, u) <= Psi* = epsilon sigma / sqrt(2 ln(1.25 / delta)). The server goes
back to the model of round T_u, adds N(0, sigma^2) to every shared parameter, and the
remaining clients train on to the round of the request.

Psi adds residuals with the factor B = 1 of the convex case, as the published code does
for deep models too: there it is a heuristic and not a certificate. The published code
reckons a sampled round with the weights of all clients; ours are those of the round.
The noise covers the model that it is added to. Rounds after it are covered as well only if they
depend on nothing else that has seen the target: under FedAvg, and under Ditto, whose shared
model is trained by itself. Elsewhere they train through personal parts that were fitted to
models with the target in them.
After a removal of any kind the record begins anew: the branches of several requests, of
which the paper goes back to the right one, would keep models with targets in them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from pfedul.records.psi import begun_after, model_after, read_psi
from pfedul.tensors import Tensors
from pfedul.unlearn.method import Method, Result
from pfedul.unlearn.methods.fine_tune import fine_tuned
from pfedul.unlearn.noise import with_noise
from pfedul.unlearn.recorded import never_took_part, require_record
from pfedul.unlearn.work import Work


@dataclass(frozen=True)
class SifuOptions:
    """`rounds` over the remaining clients; as many as were gone back, if not said."""

    rounds: int | None = None

    def __post_init__(self) -> None:
        if self.rounds is not None and self.rounds < 0:
            raise ValueError(f"rounds must be at least 0, not {self.rounds}")


def unlearn(work: Work, options: SifuOptions) -> Result:
    back_to, now = _round_to_go_back_to(work), work.federation.rounds
    start = with_noise(work, _model_of(work, back_to), work.federation.settings.psi_sigma)
    rounds = now - back_to if options.rounds is None else options.rounds
    shared = fine_tuned(work, start, rounds, work.federation.settings.local_epochs)
    return Result(shared, notes=(*_place(back_to, now), _covered(work, rounds), *_limits(work)))


def _round_to_go_back_to(work: Work) -> int:
    """The earliest of the targets' places: there Psi of none of them is above the bound."""
    found = [read_psi(work.federation.store, target) for target in work.targets]
    places = [psi.back_to for psi in found if psi is not None and psi.back_to is not None]
    return min([work.federation.rounds, *places])


def _model_of(work: Work, number: int) -> Tensors:
    if number == work.federation.rounds:
        return dict(work.shared)
    return model_after(work.federation.store, number)


def _place(back_to: int, now: int) -> Sequence[str]:
    if back_to == 0:
        return ["back to round 0, before training: this is retraining, with noise at its start"]
    if back_to == now:
        return ["the bound was never passed: noise was added to the model as it is"]
    return [f"back to the model after round {back_to} of {now}"]


def _covered(work: Work, rounds: int) -> str:
    """What (epsilon, delta) is about here, and what it is not."""
    split, words = work.federation.bench.split, "(epsilon, delta), where losses are convex, covers"
    if not split.personal:
        return f"{words} the shared tensors, and nothing is personal"
    if rounds and not set(split.personal) <= set(split.shared):
        return (
            f"{words} the noised start alone: the {rounds} rounds after it train through personal "
            "parts that were fitted to models with the target in them, so that neither the shared "
            "tensors nor personal parts as they are now are covered"
        )
    return f"{words} the shared tensors; personal parts of the others are not covered"


def _limits(work: Work) -> Sequence[str]:
    """What the record does not know of."""
    store, begun = work.federation.store, begun_after(work.federation.store) or 0
    idle = [target for target in work.targets if read_psi(store, target) is None]
    notes = list(never_took_part(idle))
    sql = "SELECT client FROM clients WHERE joined_round < ?"
    older = {row["client"] for row in store.ledger.rows(sql, begun)} & set(work.targets)
    if older:
        notes.append(
            f"psi began anew after round {begun}, with an earlier request: what "
            f"{', '.join(sorted(older))} did before is in every model, and no bound holds for it"
        )
    return notes


def check(work: Work, _options: SifuOptions) -> None:
    require_record(work, "psi")


SIFU = Method(
    name="sifu",
    summary="back to the last model that the target hardly touched, noise, and rounds without it",
    paper="Fraboni et al., AISTATS 2024",
    unlearn=unlearn,
    options=SifuOptions,
    needs=("psi",),
    memory="one number for each client and round, and at most one copy of the shared tensors for "
    "each of them",
    who="all remaining clients",
    rounds="as many as were gone back (rounds)",
    guarantee="(epsilon, delta) under convexity: for the noised start, and for the shared tensors "
    "after further rounds under FedAvg and Ditto only, as rounds elsewhere train through "
    "personal parts that have seen the target; personal parts of the others are never covered",
    avoids="sampled rounds reckoned with the weights of all clients, which understates Psi",
    check=check,
)
