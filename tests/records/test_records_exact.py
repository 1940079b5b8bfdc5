"""The exact Fisher by hand and against a plain loop, and Spearman's rank correlation."""

import math

import pytest
import torch
from scipy.stats import spearmanr
from torch import nn
from torch.nn import functional as F

from helpers.toys import OneWeight, WithNorm, samples
from pfedul.data.samples import TensorSamples
from pfedul.errors import PfedulError
from pfedul.models import build_model
from pfedul.records.exact import exact_fisher, rank_agreement


def by_loop(model: nn.Module, data: TensorSamples, names: list[str]) -> dict[str, torch.Tensor]:
    model.eval()
    parameters = [model.get_parameter(name) for name in names]
    squares = [torch.zeros_like(parameter) for parameter in parameters]
    for x, y in zip(data.x, data.y, strict=True):
        loss = F.cross_entropy(model(x[None]), y[None])
        for square, gradient in zip(squares, torch.autograd.grad(loss, parameters), strict=True):
            square += gradient**2 / len(data)
    return dict(zip(names, squares, strict=True))


def test_two_samples_by_hand():
    """Logits (a*w*x, b*w*x); the body's gradient is x * ((p - y) . head)."""
    a, b = 0.5, -0.25
    data = TensorSamples(torch.tensor([[1.0], [2.0]]), torch.tensor([0, 1]))
    squares = []
    for x, right in ((1.0, 0), (2.0, 1)):
        p = math.exp(a * x) / (math.exp(a * x) + math.exp(b * x))
        errors = (p - (right == 0), (1 - p) - (right == 1))
        squares.append((x * (errors[0] * a + errors[1] * b)) ** 2)
    found = exact_fisher(OneWeight(1.0, (a, b)), data, ["body.weight"])
    assert list(found) == ["body.weight"]
    assert found["body.weight"].item() == pytest.approx(sum(squares) / 2, rel=1e-5)


@pytest.mark.parametrize("batch", [1, 4, 100])
def test_it_equals_a_loop_over_samples_with_normalisation(batch):
    model = WithNorm()
    model(samples(50).x)  # running statistics that are not the initial ones
    names = [name for name, _ in model.named_parameters()]
    found = exact_fisher(model, samples(10), names, batch=batch)
    for name, expected in by_loop(model, samples(10), names).items():
        torch.testing.assert_close(found[name], expected, rtol=1e-4, atol=1e-9)


class WithMask(WithNorm):
    """Looks at values in Python, as models of Hugging Face look at their masks: vmap cannot."""

    def forward(self, x):
        return super().forward(x) if bool((x < 1e9).all()) else x


def test_a_model_that_looks_at_values_is_asked_sample_by_sample():
    torch.manual_seed(0)
    plain, looking = WithNorm(), WithMask()
    looking.load_state_dict(plain.state_dict())
    names = [name for name, _ in plain.named_parameters()]
    found = exact_fisher(looking, samples(10), names, batch=4)
    for name, expected in exact_fisher(plain, samples(10), names).items():
        torch.testing.assert_close(found[name], expected)


def test_it_works_on_a_real_model_and_leaves_it_as_it_was():
    model = build_model("resnet18:width=4", (3, 8, 8), 3)
    model.train()
    model.get_submodule(model.head_name).eval()
    modes = [module.training for module in model.modules()]
    state = {name: tensor.clone() for name, tensor in model.state_dict().items()}
    data = TensorSamples(torch.randn(5, 3, 8, 8), torch.tensor([0, 1, 2, 0, 1]))
    names = [name for name, _ in model.named_parameters()]
    found = exact_fisher(model, data, names)
    assert [module.training for module in model.modules()] == modes
    assert all(torch.equal(state[name], tensor) for name, tensor in model.state_dict().items())
    for name, expected in by_loop(model, data, names).items():
        torch.testing.assert_close(found[name], expected, rtol=1e-3, atol=1e-8)


def test_a_tied_tensor_has_one_gradient_under_all_its_names():
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(3, 3, bias=False), nn.Linear(3, 3, bias=False))
    model[1].weight = model[0].weight
    data = samples(6, inputs=3)
    found = exact_fisher(model, data, ["0.weight", "1.weight"])
    assert torch.equal(found["0.weight"], found["1.weight"])
    expected = by_loop(model, data, ["0.weight"])["0.weight"]
    torch.testing.assert_close(found["1.weight"], expected)


def test_mistakes_are_one_sentence():
    with pytest.raises(PfedulError, match=r"no parameter 'body\.1\.running_mean'"):
        exact_fisher(WithNorm(), samples(3), ["body.1.running_mean"])
    with pytest.raises(PfedulError, match="at least one sample"):
        exact_fisher(WithNorm(), samples(0), ["head.weight"])
    with pytest.raises(PfedulError, match="lists of 2 and 3 values"):
        rank_agreement([1, 2], [1, 2, 3])


def test_rank_agreement_is_spearman_with_ties():
    a, b = [0.3, 0.1, 0.1, 0.9, 0.4], [2.0, 1.0, 3.0, 3.0, 3.0]
    assert rank_agreement(a, b) == pytest.approx(spearmanr(a, b).statistic)
    assert rank_agreement(a, [-x for x in a]) == pytest.approx(-1.0)
    assert math.isnan(rank_agreement(a, [1.0] * 5))
