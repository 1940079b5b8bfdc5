"""The exact diagonal Fisher: Eq. 4 of the paper, for audits that may see a client's data.

The mean over samples of squared per-sample gradients of the task's loss, such as cross-entropy.
The model is in eval mode, so normalisation does not mix samples: this is the
gradient of the model as it predicts, while training used batch statistics.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.func import functional_call, grad, vmap

from pfedul.base.inputs import Inputs, answer, each
from pfedul.base.tensors import Tensors
from pfedul.data.samples import Samples
from pfedul.errors import PfedulError
from pfedul.tasks.base import LearningTask
from pfedul.tasks.classification import CLASSIFICATION


def exact_fisher(
    model: nn.Module,
    samples: Samples,
    names: Sequence[str],
    batch: int = 32,
    task: LearningTask = CLASSIFICATION,
) -> Tensors:
    """Mean squared gradient per sample for these parameters, `batch` samples at a time."""
    if len(samples) == 0:
        raise PfedulError("The exact Fisher is a mean over samples; give it at least one sample.")
    first = _first_names(model, names)
    # By first names only: a tied tensor can have only one value, and one gradient.
    wanted = {name: model.get_parameter(name).detach() for name in dict.fromkeys(first.values())}
    with _eval_mode(model):
        sums = _summed_squares(_per_sample_gradients(model, task), wanted, samples, batch)
    return {name: (sums[first[name]] / len(samples)).float() for name in names}


def _summed_squares(
    gradients: Callable[..., Tensors], wanted: Tensors, samples: Samples, batch: int
) -> Tensors:
    sums = {
        name: torch.zeros(tensor.shape, dtype=torch.float64, device="cpu")
        for name, tensor in wanted.items()
    }
    for indices in torch.split(torch.arange(len(samples), device="cpu"), batch):
        for name, gradient in gradients(wanted, *samples.batch(indices)).items():
            sums[name] += gradient.detach().square().sum(0).cpu()
    return sums


def _per_sample_gradients(model: nn.Module, task: LearningTask) -> Callable[..., Tensors]:
    def loss(parameters: Tensors, x: Inputs, y: Tensor) -> Tensor:
        def called(*inputs: Any, **named: Any) -> Any:
            return functional_call(model, parameters, inputs, named)

        output = answer(called, each(x, lambda tensor: tensor.unsqueeze(0)))
        return task.loss(output, y.unsqueeze(0))

    of_one: Callable[..., Tensors] = grad(loss)
    of_all: Callable[..., Tensors] = vmap(of_one, in_dims=(None, 0, 0))

    def gradients(parameters: Tensors, x: Inputs, y: Tensor) -> Tensors:
        try:
            return of_all(parameters, x, y)
        except RuntimeError:  # the model looks at values, at those of a mask say: vmap cannot
            singly = [of_one(parameters, _sample(x, at), y[at]) for at in range(len(y))]
            return {name: torch.stack([one[name] for one in singly]) for name in parameters}

    return gradients


def _sample(x: Inputs, at: int) -> Inputs:
    sample: Inputs = each(x, lambda tensor: tensor[at])
    return sample


def _first_names(model: nn.Module, names: Sequence[str]) -> dict[str, str]:
    """Each wanted name -> the first name of the same parameter."""
    first: dict[int, str] = {}
    known = {
        name: first.setdefault(id(parameter), name)
        for name, parameter in model.named_parameters(remove_duplicate=False)
    }
    unknown = [name for name in names if name not in known]
    if unknown:
        raise PfedulError(
            f"The model has no parameter '{unknown[0]}'; "
            "name parameters as in model.named_parameters(), without buffers."
        )
    return {name: known[name] for name in names}


@contextmanager
def _eval_mode(model: nn.Module) -> Iterator[None]:
    """Eval mode within the block; afterwards each module has its own mode again."""
    training = [module for module in model.modules() if module.training]
    model.eval()
    try:
        yield
    finally:
        for module in training:
            module.training = True


def rank_agreement(a: Sequence[float], b: Sequence[float]) -> float:
    """Spearman's rank correlation, equal values sharing their mean rank.

    NaN if one side is constant, as it has no order.

    >>> rank_agreement([0.1, 0.2, 0.3], [5.0, 6.0, 60.0])
    1.0
    """
    if len(a) != len(b) or len(a) < 2:
        raise PfedulError(
            f"Rank agreement compares two lists of the same two or more layers, "
            f"not lists of {len(a)} and {len(b)} values."
        )
    x, y = _centred_ranks(a), _centred_ranks(b)
    scale = math.sqrt(float(x @ x) * float(y @ y))
    return float(x @ y) / scale if scale else math.nan


def _centred_ranks(values: Sequence[float]) -> NDArray[np.float64]:
    _, places, counts = np.unique(np.asarray(values), return_inverse=True, return_counts=True)
    mean_rank = np.cumsum(counts) - (counts - 1) / 2
    ranks: NDArray[np.float64] = mean_rank[places] - (len(values) + 1) / 2
    return ranks
