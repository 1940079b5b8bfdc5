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

from pfedul.base.tensors import Tensors, load_tensors, read_tensors
from pfedul.data.samples import Samples
from pfedul.errors import PfedulError
from pfedul.split import Split


def label_distribution(samples: Samples, classes: int) -> Tensor:
    """The share of each class among a client's samples."""
    _, labels = samples.batch(torch.arange(len(samples)))
    counts = torch.bincount(labels, minlength=classes).to(torch.float64)
    return counts / counts.sum()


def label_gate(distribution: Tensor, embeddings: Tensor) -> Tensor:
    """1 + p / max|p|, where p is the mean of class embeddings under the distribution.

    ZeroFU's p_i and its (W(p_i) + 1), with the rows of the head as embeddings and a
    plain scaling in the place of the trained W. No factor is negative, so features
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


def one_input(samples: Samples) -> Tensor:
    """A single input, for its shape and type alone."""
    x, _ = samples.batch(torch.zeros(1, dtype=torch.int64))
    if not x.is_floating_point():
        raise PfedulError(
            "The inputs of this run are whole numbers, which a generator cannot draw; "
            "choose another method ('pfedul methods')."
        )
    return x[0]


def trained_names(model: nn.Module, split: Split) -> list[str]:
    """Shared parameters that the model's author did not freeze; tied ones by their first name."""
    named = model.named_parameters()
    return [name for name, p in named if name in split.shared and p.requires_grad]


def completed(model: nn.Module, split: Split, start: Tensors, student: Tensors) -> Tensors:
    """All shared tensors, tied names included, with the student's in their places."""
    load_tensors(model, start, student)
    return read_tensors(model, split.shared)
