"""Learning the forgotten samples again, epoch by epoch: what relearn time is counted on.

The training behind `pfedul.audit.attacks.relearn`, which names the papers (arXiv
2003.02960, arXiv 2111.08947). It is the client's own local training on all parameters,
as FedPer's, so it differs from the papers in the learning rate: that of the federation.
Momentum begins anew in every epoch, as it does in every round of a federation: nothing
but the tensors passes from one epoch to the next.
"""

from __future__ import annotations

from pfedul.audit.attacks.relearn import epochs_to_return
from pfedul.base.randomness import random_stream
from pfedul.base.tensors import Tensors, load_tensors
from pfedul.base.threads import one_thread
from pfedul.client import measure
from pfedul.data.samples import Samples
from pfedul.personalization.local import run_sgd, trainable
from pfedul.protocol import Workbench


def relearning_curve(
    bench: Workbench,
    shared: Tensors,
    personal: Tensors,
    samples: Samples,
    epochs: int,
    seed: int,
    stop_at: float | None = None,
) -> list[float]:
    """Accuracy on `samples` before the first epoch of training on them, and after each.

    It ends early when the accuracy is `stop_at`. The seed decides the shuffles, the
    same from every start, so that curves can be compared. Of Ditto, give no personal
    tensors in order to start from the shared model; tensors that are in neither part
    start as they are before training.
    """
    model = bench.build_model()
    load_tensors(model, shared, personal)
    with one_thread(), random_stream(seed, "relearn"):
        curve = [measure(model, samples)["accuracy"]]
        while len(curve) <= epochs and not _is_back(curve, stop_at):
            model.train()
            run_sgd(model, trainable(model), samples, bench.training, epochs=1)
            curve.append(measure(model, samples)["accuracy"])
    return curve


def _is_back(curve: list[float], stop_at: float | None) -> bool:
    return stop_at is not None and epochs_to_return(curve, stop_at) is not None
