"""The condition: what makes features of one client's model that client's own.

ZeroFU and Mimir train a module along with the federation that turns features into
personal ones: from the client's label distribution (ZeroFU), from a prompt (Mimir).
Runs here are trained without. Its place is taken by a gate, one factor for each
feature. Gates shape L_F only; outputs are compared as they are deployed, without gates.

Without any gate L_F would often be zero by construction: under FedAvg, FedPer and FedRep
the features below the head do not depend on whose model it is.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from pfedul.base.tensors import Tensors
from pfedul.data.samples import Samples
from pfedul.errors import PfedulError


def label_distribution(samples: Samples, classes: int) -> Tensor:
    """The share of each class among a client's samples."""
    _, labels = samples.batch(torch.arange(len(samples)))
    counts = torch.bincount(labels, minlength=classes).to(torch.float64)
    return counts / counts.sum()


def label_gate(distribution: Tensor, embeddings: Tensor) -> Tensor:
    """1 + p / max|p|, where p is the mean of class embeddings under the distribution.

    ZeroFU's p_i and its (W(p_i) + 1), with the rows of the head as embeddings and a
    plain scaling in the place of the trained W. No factor is negative, so that features
    behind a ReLU stay as they are under ZeroFU's own.

    >>> label_gate(torch.tensor([1.0, 0.0]), torch.tensor([[2.0, -1.0], [0.0, 5.0]]))
    tensor([2.0000, 0.5000])
    """
    mean = distribution.to(embeddings.dtype) @ embeddings
    largest = mean.abs().max()
    return 1 + mean / largest if largest > 0 else torch.ones_like(mean)


def class_embeddings(model: nn.Module, head: str, tensors: Tensors) -> Tensor:
    """The rows of the head's weights: what stands for each class among the features."""
    if not isinstance(model.get_submodule(head), nn.Linear):
        raise PfedulError(
            f"The condition 'labeldist' needs a linear head, which '{head}' is not; "
            "use condition=none."
        )
    return tensors[f"{head}.weight"]
