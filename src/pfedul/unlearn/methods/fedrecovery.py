"""FedRecovery: take a weighted mean of the target's residuals away (Zhang et al., TIFS 2023).

After round i the model with client u differs from that without it by the residual
d^i = w_u (D_u^i - D^i) / (1 - w_u), and by nothing where u was not there. The method
subtracts sum_i p_i d^i with p_i = ||D^i||^2 / sum_j ||D^j||^2, and adds noise. The weights
have one denominator, so a running sum for each client is enough.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from pfedul.base.options import option
from pfedul.base.tensors import Tensors
from pfedul.records.sums import Total, read_sum, read_total
from pfedul.unlearn.base import About, Method, Needs, Result
from pfedul.unlearn.context import Context, never_took_part
from pfedul.unlearn.training import SCALES, with_noise


@dataclass(frozen=True)
class FedRecoveryOptions:
    """The correction, gamma times the mean or the sum of the residuals, and its noise."""

    gamma: float = option(1.0, "Stretches the correction.", at_least=0)
    sigma: float = option(0.0, "Standard deviation of the noise.", at_least=0)
    scale: str = option(
        "same", "'tensor': sigma in units of each tensor's own deviation.", choices=SCALES
    )
    residuals: str = option(
        "mean", "The weighted mean of the residuals, or their sum.", choices=("mean", "sum")
    )


def unlearn(ctx: Context, options: FedRecoveryOptions) -> Result:
    total = ctx.record(read_total)
    assert total is not None
    recorded = [target for target in ctx.targets if ctx.record(read_sum, target)]
    shared = dict(ctx.shared)
    gamma = options.gamma * (total.rounds if options.residuals == "sum" else 1)
    for name, tensor in _influence(ctx, recorded, total).items():
        shared[name] = (shared[name] - gamma * tensor).to(shared[name].dtype)
    noisy = with_noise(ctx, ctx.tied(shared), options.sigma, options.scale)
    return Result(noisy, notes=_notes(ctx, recorded, total))


def _influence(ctx: Context, targets: Sequence[str], total: Total) -> Tensors:
    """The weighted mean of the targets' residuals."""
    found: dict[str, Tensor] = {}
    if total.squares == 0:
        return found
    for target in targets:
        kept = ctx.record(read_sum, target)
        assert kept is not None
        share = _together(ctx, targets, target, total) / total.squares
        for name, tensor in kept[1].items():
            more = tensor.to(torch.float64) * share
            found[name] = found[name] + more if name in found else more
    return found


def _together(ctx: Context, targets: Sequence[str], target: str, total: Total) -> float:
    """What turns a target's own residual into its part of that of all targets together.

    w_U (D_U - D) / (1 - w_U) is the sum of w_u (D_u - D) / (1 - w_u), each times
    (1 - w_u) / (1 - w_U). `targets` are those with a record: others were in no round, and are
    in none of its weights. Where somebody was absent, weights differ from round to round
    and no factor makes it exact: the residuals of single clients are then added.
    """
    if len(targets) == 1:  # who else was there when does not matter, and is not read
        return 1.0
    if not _always_there(ctx, targets, total):
        return 1.0
    samples = {client: ctx.samples(client) for client in (*targets, *ctx.remaining)}
    everybody, all_targets = sum(samples.values()), sum(samples[name] for name in targets)
    return (everybody - samples[target]) / (everybody - all_targets)


def _always_there(ctx: Context, targets: Sequence[str], total: Total) -> bool:
    found = [ctx.record(read_sum, client) for client in (*targets, *ctx.remaining)]
    return all(kept is not None and kept[0] == total.rounds for kept in found)


_NO_CERTIFICATE = "no certificate: sigma is a plain number, and no (epsilon, delta) follows from it"


def _notes(ctx: Context, recorded: Sequence[str], total: Total) -> tuple[str, ...]:
    idle = [target for target in ctx.targets if target not in recorded]
    notes = [_NO_CERTIFICATE, *never_took_part(idle)]
    if total.rounds < ctx.rounds:
        notes.append(
            f"the sums are of the last {total.rounds} of {ctx.rounds} rounds, since an "
            "earlier request: what the targets did before is not in them"
        )
    if len(recorded) > 1 and not _always_there(ctx, recorded, total):
        notes.append(
            "not everybody was in every round: the targets' residuals were added one by one, "
            "which is less than that of all of them together"
        )
    return tuple(notes)


FEDRECOVERY = Method(
    name="fedrecovery",
    summary="subtract a weighted mean of what the target changed in each round",
    unlearn=unlearn,
    about=About(
        paper="Zhang et al., IEEE TIFS 2023",
        memory="one number for each shared parameter and client",
        guarantee="none: no certificate",
        avoids="keeping every update of every round; a certificate whose noise destroys deep "
        "models",
        variants=("fedrecovery:residuals=sum",),
    ),
    options=FedRecoveryOptions,
    needs=Needs(records=("sums",)),
    check=lambda ctx, _options: ctx.require_record("sums"),
)
