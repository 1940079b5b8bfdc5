"""The CNN and the MLP against counts that were worked out by hand."""

import pytest
import torch
from torch import nn

from pfedul.models import build_model


def count(model: nn.Module) -> int:
    return sum(parameter.numel() for parameter in model.parameters())


def test_cnn_without_norm_is_the_cnn_of_the_fedavg_paper():
    # McMahan et al. (2017) state 1,663,370 parameters for their MNIST CNN.
    assert count(build_model("cnn:norm=none", (1, 28, 28), 10)) == 1_663_370


def test_cnn_with_batchnorm_trades_biases_for_weight_and_bias_of_the_norm():
    assert count(build_model("cnn", (1, 28, 28), 10)) == 1_663_370 + 32 + 64


def test_cnn_has_a_batchnorm_by_default_so_that_fedbn_works():
    found = [m for m in build_model("cnn", (1, 8, 8), 10).modules() if type(m) is nn.BatchNorm2d]
    assert [norm.num_features for norm in found] == [32, 64]


def test_mlp_has_as_many_hidden_layers_as_its_depth():
    model = build_model("mlp:hidden=5,depth=3", (2, 3), 4)
    shapes = [tuple(m.weight.shape) for m in model.modules() if isinstance(m, nn.Linear)]
    assert shapes == [(5, 6), (5, 5), (5, 5), (4, 5)]


@pytest.mark.parametrize(("norm", "expected"), [("none", 0), ("batch", 2)])
def test_mlp_norm_option(norm, expected):
    model = build_model(f"mlp:norm={norm}", (4,), 2)
    assert sum(isinstance(m, nn.BatchNorm1d) for m in model.modules()) == expected


def test_mlp_computes_by_hand():
    model = build_model("mlp:hidden=1,depth=1", (2,), 1)
    values = ([[1.0, -2.0]], [0.5], [[3.0]], [1.0])
    for parameter, value in zip(model.parameters(), values, strict=True):
        parameter.data = torch.tensor(value)
    x = torch.tensor([[4.0, 1.0], [0.0, 1.0]])
    assert model(x).tolist() == [[3 * 2.5 + 1], [1.0]]
