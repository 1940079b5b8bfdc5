"""A backdoor in one client's training samples, so an audit can test whether it still works.

T. Gu, B. Dolan-Gavitt, S. Garg, "BadNets" (arXiv 1708.06733): some samples get a small patch in the
corner and the attacker's label. Planted to verify unlearning, as in D. M. Sommer et al., "Athena",
PETS 2022 (arXiv 2003.04247). It differs in two points: the patch is one plain square of the largest
value in the client's data (in a vector, its last features), and samples are changed in place
instead of added, so the client's weight in the federation stays the same.
"""

from __future__ import annotations

from dataclasses import replace

import torch
from torch import Tensor

from pfedul.base.inputs import single
from pfedul.base.randomness import numpy_generator
from pfedul.data.samples import FederatedData, Samples, TensorSamples
from pfedul.data.trigger import Backdoor, Trigger
from pfedul.errors import PfedulError

_IMAGE, _VECTOR = 3, 1  # dimensions of one sample


def with_backdoor(data: FederatedData, backdoor: Backdoor, seed: int) -> FederatedData:
    """The data with the backdoor in its client's training samples; as they are without it."""
    if backdoor.client not in data.clients:  # forgotten since, or on another machine
        return data
    if backdoor.label >= data.classes:
        raise PfedulError(
            f"The backdoor's label {backdoor.label} is none of the classes of the data, "
            f"0 to {data.classes - 1}."
        )
    own = data.clients[backdoor.client]
    planted = replace(own, train=plant(own.train, backdoor, seed))
    warning = f"A backdoor is planted in training samples of {backdoor.client}, for an audit."
    clients = {**data.clients, backdoor.client: planted}
    return replace(data, clients=clients, warnings=(*data.warnings, warning))


def plant(samples: Samples, backdoor: Backdoor, seed: int) -> TensorSamples:
    """The samples, some of those of other classes with the trigger and its label."""
    clean = _in_memory(samples)
    others = torch.nonzero(clean.y != backdoor.label).flatten()
    if not len(others):
        raise PfedulError(
            f"The client '{backdoor.client}' has training samples of class {backdoor.label} only; "
            "plant the backdoor with another label."
        )
    count = max(1, round(backdoor.share * len(others)))
    generator = numpy_generator(seed, "backdoor", backdoor.client)
    chosen = others[torch.from_numpy(generator.permutation(len(others))[:count])]
    x, y = single(clean.x).clone(), clean.y.clone()
    x[chosen] = stamped(x[chosen], backdoor, trigger_value(clean))
    y[chosen] = backdoor.label
    return TensorSamples(x, y)


def triggered(samples: Samples, trigger: Trigger, value: float) -> TensorSamples:
    """The same samples, all with the trigger, and with their true labels."""
    clean = _in_memory(samples)
    return TensorSamples(stamped(single(clean.x), trigger, value), clean.y)


def trigger_value(samples: Samples) -> float:
    """The largest value of these samples; planting a trigger of it leaves it as it is."""
    return float(single(_in_memory(samples).x).max())


def stamped(x: Tensor, trigger: Trigger, value: float) -> Tensor:
    """Inputs [N, C, H, W] or [N, D] with the trigger: bottom right, or the last features.

    >>> stamped(torch.zeros(1, 4), Trigger(size=2), 9.0)
    tensor([[0., 0., 9., 9.]])
    """
    shape, size = tuple(x.shape[1:]), trigger.size
    _check_fits(shape, size)
    marked = x.clone()
    place = marked[..., -size:, -size:] if len(shape) == _IMAGE else marked[..., -size:]
    place.fill_(value)
    return marked


def _check_fits(shape: tuple[int, ...], size: int) -> None:
    if len(shape) not in (_IMAGE, _VECTOR):
        raise PfedulError(
            "A trigger is for images [channels, height, width] or vectors, "
            f"not for samples of shape {shape}."
        )
    if size > min(shape[-2:]):  # of an image its height and width
        raise PfedulError(
            f"A trigger of size {size} does not fit samples of shape {shape}; "
            f"its size can be {min(shape[-2:])} at most."
        )


def _in_memory(samples: Samples) -> TensorSamples:
    if not isinstance(samples, TensorSamples):
        raise PfedulError(
            "A trigger needs samples that are held in memory; give them as a pair of arrays "
            "(inputs, labels) instead of a Dataset."
        )
    return samples
