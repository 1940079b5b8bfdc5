"""FedRecovery: take a weighted mean of the target's residuals away (Zhang et al., TIFS 2023).

After round i the model with client u differs from that without it by the residual
d^i = w_u (D_u^i - D^i) / (1 - w_u), and by nothing where u was not there. The method
subtracts sum_i p_i d^i with p_i = ||D^i||^2 / sum_j ||D^j||^2, and adds noise.

As published it keeps every update of every client; the weights have one denominator, so
that a running sum for each client gives the same. The weights add up to one, so the
correction is no longer than one round's residual, while the target's influence is a sum
over rounds: `gamma` stretches it, and `residuals=sum` by the number of rounds as well, which
makes the mean a sum.
The noise that the paper's certificate asks for would leave nothing of a deep model, so
that `sigma` is a plain number here and nothing is certified.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from pfedul.base.tensors import Tensors
from pfedul.models.base import require_choice
from pfedul.records.sums import Total, read_sum, read_total
from pfedul.unlearn.base import Method, Result
from pfedul.unlearn.context import Work
from pfedul.unlearn.limits import require_not_negative
from pfedul.unlearn.noise import SCALES, with_noise
from pfedul.unlearn.recorded import never_took_part, require_record


@dataclass(frozen=True)
class FedRecoveryOptions:
    """`gamma` stretches the correction, which is the weighted mean of `residuals`, or their sum.

    `sigma` is the noise, `scale=tensor` in units of each tensor's own standard deviation.
    """

    gamma: float = 1.0
    sigma: float = 0.0
    scale: str = "same"
    residuals: str = "mean"

    def __post_init__(self) -> None:
        require_not_negative(gamma=self.gamma, sigma=self.sigma)
        require_choice("scale", self.scale, *SCALES)
        require_choice("residuals", self.residuals, "mean", "sum")


def unlearn(work: Work, options: FedRecoveryOptions) -> Result:
    total = read_total(work.federation.store)
    assert total is not None
    recorded = [target for target in work.targets if read_sum(work.federation.store, target)]
    shared = dict(work.shared)
    gamma = options.gamma * (total.rounds if options.residuals == "sum" else 1)
    for name, tensor in _influence(work, recorded, total).items():
        shared[name] = (shared[name] - gamma * tensor).to(shared[name].dtype)
    noisy = with_noise(work, work.agreeing(shared), options.sigma, options.scale)
    return Result(noisy, notes=_notes(work, recorded, total))


def _influence(work: Work, targets: Sequence[str], total: Total) -> Tensors:
    """The weighted mean of the targets' residuals."""
    found: dict[str, Tensor] = {}
    if total.squares == 0:
        return found
    for target in targets:
        kept = read_sum(work.federation.store, target)
        assert kept is not None
        share = _together(work, targets, target, total) / total.squares
        for name, tensor in kept[1].items():
            more = tensor.to(torch.float64) * share
            found[name] = found[name] + more if name in found else more
    return found


def _together(work: Work, targets: Sequence[str], target: str, total: Total) -> float:
    """What turns a target's own residual into its part of that of all targets together.

    w_U (D_U - D) / (1 - w_U) is the sum of w_u (D_u - D) / (1 - w_u), each times
    (1 - w_u) / (1 - w_U). `targets` are those with a record: others were in no round, and are
    in none of its weights. Where somebody was absent, weights differ from round to round
    and no factor makes it exact: the residuals of single clients are then added.
    """
    if len(targets) == 1:  # who else was there when does not matter, and is not read
        return 1.0
    if not _always_there(work, targets, total):
        return 1.0
    samples = {client: work.samples(client) for client in (*targets, *work.remaining)}
    everybody, all_targets = sum(samples.values()), sum(samples[name] for name in targets)
    return (everybody - samples[target]) / (everybody - all_targets)


def _always_there(work: Work, targets: Sequence[str], total: Total) -> bool:
    found = [read_sum(work.federation.store, client) for client in (*targets, *work.remaining)]
    return all(kept is not None and kept[0] == total.rounds for kept in found)


_NO_CERTIFICATE = "no certificate: sigma is a plain number, and no (epsilon, delta) follows from it"


def _notes(work: Work, recorded: Sequence[str], total: Total) -> tuple[str, ...]:
    idle = [target for target in work.targets if target not in recorded]
    notes = [_NO_CERTIFICATE, *never_took_part(idle)]
    if total.rounds < work.federation.rounds:
        notes.append(
            f"the sums are of the last {total.rounds} of {work.federation.rounds} rounds, since an "
            "earlier request: what the targets did before is not in them"
        )
    if len(recorded) > 1 and not _always_there(work, recorded, total):
        notes.append(
            "not everybody was in every round: the targets' residuals were added one by one, "
            "which is less than that of all of them together"
        )
    return tuple(notes)


def check(work: Work, _options: FedRecoveryOptions) -> None:
    require_record(work, "sums")


FEDRECOVERY = Method(
    variants=("fedrecovery:residuals=sum",),
    name="fedrecovery",
    summary="subtract a weighted mean of what the target changed in each round",
    paper="Zhang et al., IEEE TIFS 2023",
    unlearn=unlearn,
    options=FedRecoveryOptions,
    needs=("sums",),
    memory="one number for each shared parameter and client",
    guarantee="none: no certificate",
    avoids="keeping every update of every round; a certificate whose noise destroys deep models",
    check=check,
)
