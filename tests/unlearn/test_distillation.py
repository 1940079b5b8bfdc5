"""The engine of distillation: losses, gates, generator and loop, with answers known by hand."""

from contextlib import contextmanager
from dataclasses import asdict

import numpy as np
import pytest
import torch
from torch import nn

from pfedul.base.randomness import derive_seed
from pfedul.base.registry import NoOptions
from pfedul.base.tensors import packed
from pfedul.data.samples import TensorSamples
from pfedul.errors import PfedulError
from pfedul.models import build_model
from pfedul.personalization import Job, LocalTraining
from pfedul.personalization.fedper import FEDPER
from pfedul.unlearn.methods.distillation.generator import NOISE, generator_for, noise, parameters_of
from pfedul.unlearn.methods.distillation.lens import attention_map, lens_on
from pfedul.unlearn.methods.distillation.loop import (
    Batch,
    Branch,
    DistilOptions,
    Parts,
    Weights,
    adam_step,
    answered,
    attention_distance,
    first_state,
    iterate,
    loss,
    student_step,
)
from pfedul.unlearn.methods.distillation.mimir import fit_prompt
from pfedul.unlearn.methods.distillation.run import class_embeddings, distil, label_distribution

HEAD = torch.tensor([[1.0, 0.0], [0.5, -1.0]])
X = torch.ones(1, 1)


class TwoFeatures(nn.Module):
    """x -> (a x, b x) -> two logits."""

    head_name = "head"

    def __init__(self, a: float = 1.0, b: float = 2.0) -> None:
        super().__init__()
        self.body = nn.Linear(1, 2, bias=False)
        self.head = nn.Linear(2, 2, bias=False)
        with torch.no_grad():
            self.body.weight.copy_(torch.tensor([[a], [b]]))
            self.head.weight.copy_(HEAD)

    def forward(self, x):
        return self.head(self.body(x))


@contextmanager
def toy_cast(target_gate=(1.0, 0.0)):
    """The target sees the first feature alone, the one who stays sees both."""
    model = TwoFeatures()
    old = {"body.weight": model.body.weight.detach().clone()}
    head = {"head.weight": HEAD}
    leaver = Branch(head, torch.tensor(target_gate))
    generator = generator_for((1,), torch.float32, 0)
    with lens_on(model, "head") as lens:
        yield Parts(lens, generator, old, old, [leaver], [Branch(head, torch.ones(2))], X.dtype)


def batch_of(parts: Parts) -> Batch:
    with torch.no_grad():
        return answered(parts, parts.remaining, X)


def test_the_loss_on_three_numbers_is_the_one_computed_by_hand():
    student = {"body.weight": torch.tensor([[1.0], [0.0]])}
    with toy_cast() as parts:
        found = [
            float(loss(parts, batch_of(parts), student, Weights(*w), tau=2.0))
            for w in [(1, 0, 0), (0, 1, 0), (3, 5, 7)]
        ]
    # Features: student (1, 0), target (1, 0) behind its gate: no angle between them.
    assert found[0] == pytest.approx(0.0, abs=1e-6)
    # Logits: teacher (1, -1.5), student (1, 0.5), at the temperature 2.
    teacher, own = (np.exp(np.array(z) / 2) for z in [(1.0, -1.5), (1.0, 0.5)])
    p, q = teacher / teacher.sum(), own / own.sum()
    divergence = 4 * float((p * np.log(p / q)).sum())
    assert found[1] == pytest.approx(divergence, rel=1e-5)
    assert found[2] == pytest.approx(5 * divergence, rel=1e-5)  # there is no convolution


def test_the_loss_is_the_mean_over_those_who_stay():
    student = {"body.weight": torch.tensor([[1.0], [0.5]])}
    other = Branch({"head.weight": HEAD.flip(0) * 2}, torch.tensor([0.5, 1.0]))
    with toy_cast() as parts:
        sides = [parts.remaining[0], other, other]

        def of(places):
            with torch.no_grad():
                batch = answered(parts, [sides[place] for place in places], X)
            return float(loss(parts, batch, student, Weights(1, 1, 0), tau=2.0))

        assert of([0, 1, 2]) == pytest.approx((of([0]) + 2 * of([1])) / 3, rel=1e-5)
        assert abs(of([0]) - of([1])) > 0.01


@pytest.mark.parametrize("number", [1, 2])
def test_a_round_at_a_client_is_all_its_iterations_on_noise_of_its_own(number):
    """Seven iterations in two rounds: four in each, on draws of that round."""
    options = DistilOptions(batch=8, iterations=7, rounds=2)
    with toy_cast() as parts:
        state = first_state(dict(parts.old), parameters_of(parts.generator))
        seed = derive_seed(0, "round", number)
        for place in range(1, 5):
            state = iterate(parts, state, options, seed, place)
        start = first_state(dict(parts.old), parameters_of(parts.generator))
        extra = packed(student=start.student, generator=start.generator, start=parts.old)
        extra |= packed(target0=parts.targets[0].personal, leaving={"0": parts.targets[0].gate})
        model = parts.lens.model
    split, samples = FEDPER.split(model, "head"), TensorSamples(X, torch.zeros(1).long())
    personal = {"head.weight": HEAD}
    training = LocalTraining(), NoOptions()
    job = Job("c", model, split, "head", dict(start.student), personal, samples, *training)
    told = {**asdict(options), "seed": 0, "round": number, "head": "head", "targets": 1}
    found = distil(job, told, extra).tensors
    expected = packed(student=state.student, generator=state.generator)
    assert found.keys() == expected.keys()
    for name, tensor in expected.items():
        torch.testing.assert_close(found[name], tensor)
    assert not torch.equal(found["student/body.weight"], start.student["body.weight"])


@pytest.mark.parametrize(("lf_sign", "direction"), [("pull", 1), ("push", -1)])
def test_one_step_turns_features_to_the_target_or_away_from_it(lf_sign, direction):
    """1 - a/r with r = sqrt(a^2 + b^2) has the slopes (-b^2, a b) / r^3 at (a, b) = (1, 2)."""
    options = DistilOptions(lf_sign=lf_sign, beta=0, gamma=0, lr=0.1)
    with toy_cast() as parts:
        after = student_step(parts, batch_of(parts), dict(parts.old), options)
    r3 = 5**1.5
    expected = [1 + direction * 0.1 * 4 / r3, 2 - direction * 0.1 * 2 / r3]
    assert after["body.weight"].flatten().tolist() == pytest.approx(expected, rel=1e-5)


def test_steps_are_no_longer_than_the_clip_allows():
    options = DistilOptions(forget=1000.0, beta=0, gamma=0, lr=0.1, clip=0.5)
    with toy_cast() as parts:
        after = student_step(parts, batch_of(parts), dict(parts.old), options)
    step = after["body.weight"] - torch.tensor([[1.0], [2.0]])
    assert float(step.norm()) == pytest.approx(0.05, rel=1e-4)


@pytest.mark.parametrize("gen_obj", ["lf", "lf+kd"])
def test_the_generator_climbs_what_it_is_told_to(gen_obj):
    """On the same noise its objective is higher after its step."""
    options = DistilOptions(batch=16, gen_obj=gen_obj, student_steps=1, generator_lr=1e-5)
    torch.manual_seed(0)
    model = build_model("mlp:hidden=8", (4,), 3)
    state = {name: tensor.clone() for name, tensor in model.state_dict().items()}
    shared = {name: tensor for name, tensor in state.items() if not name.startswith("head")}
    head = {name: tensor for name, tensor in state.items() if name.startswith("head")}
    gates = [torch.linspace(0, 2, 8), torch.linspace(2, 0, 8)]
    generator = generator_for((4,), torch.float32, 3)
    with lens_on(model, "head") as lens:
        sides = [Branch(head, gate) for gate in gates]
        parts = Parts(lens, generator, shared, shared, sides[:1], sides[1:], torch.float32)
        before = first_state(shared, parameters_of(generator))
        after = iterate(parts, before, options, seed=5, number=1)
        z = noise(16, torch.float32, 5, 1)
        beta = options.beta if gen_obj == "lf+kd" else 0.0
        values = []
        for parameters in (before.generator, after.generator):
            x = torch.func.functional_call(generator, parameters, (z,))
            batch = answered(parts, parts.remaining, x)
            value = loss(parts, batch, after.student, Weights(1.0, beta, 0.0), options.tau)
            values.append(float(value))
    assert values[1] > values[0]


@pytest.mark.parametrize("shape", [(1, 8, 8), (3, 32, 32), (1, 28, 28), (3, 10, 7), (4,), (5, 7)])
def test_a_generator_draws_inputs_of_the_shape_of_the_run(shape):
    generator = generator_for(shape, torch.float32, 1)
    x = generator(torch.randn(6, NOISE))
    assert x.shape == (6, *shape)
    again = generator_for(shape, torch.float32, 1)
    for one, two in zip(generator.parameters(), again.parameters(), strict=True):
        assert torch.equal(one, two)
    assert not list(generator.buffers())


def test_adam_is_that_of_torch():
    start = torch.tensor([1.0, -2.0, 3.0])
    slopes = [torch.tensor([0.5, -1.0, 2.0]) * k for k in (1, -2, 3)]
    parameter = nn.Parameter(start.clone())
    optimizer = torch.optim.Adam([parameter], lr=0.01)
    own, zeros = {"w": start}, {"w": torch.zeros(3)}
    moments = [zeros, zeros]
    for number, slope in enumerate(slopes, start=1):
        parameter.grad = slope.clone()
        optimizer.step()
        own, *moments = adam_step(own, {"w": slope}, *moments, 0.01, number)
    assert torch.allclose(own["w"], parameter.detach(), atol=1e-6)


def test_attention_maps_by_hand():
    output = torch.tensor([[[[3.0, 0.0]], [[1.0, 2.0]]]])  # 2 channels of 1 x 2 pixels
    own = attention_map(output)  # mean squares (5, 2)
    assert own.tolist()[0] == pytest.approx([5 / 29**0.5, 2 / 29**0.5])
    other = torch.tensor([[0.0, 1.0]])
    apart = (25 + (2 - 29**0.5) ** 2) / 29
    assert float(attention_distance([own, own], [other, own])) == pytest.approx(apart / 2)
    assert float(attention_distance([], [])) == 0.0


def test_a_lens_sees_the_input_of_the_head_and_every_convolution_and_leaves_nothing():
    torch.manual_seed(0)
    model = build_model("cnn:width=2", (1, 8, 8), 3)
    x = torch.randn(4, 1, 8, 8)
    with lens_on(model, "head") as lens:
        view = lens.look({}, x)
        assert torch.equal(view.features, model.features(x))
    assert torch.equal(view.logits, model(x))
    assert [m.shape for m in view.maps] == [(4, 64), (4, 16)]
    assert not any(m._forward_hooks or m._forward_pre_hooks for m in model.modules())


def test_label_distributions_are_shares():
    found = label_distribution(TensorSamples(torch.zeros(4, 1), torch.tensor([0, 2, 2, 2])), 4)
    assert found.tolist() == [0.25, 0.0, 0.75, 0.0]


def test_a_head_that_is_not_linear_has_no_class_embeddings():
    model = nn.Sequential(nn.Linear(2, 2), nn.Sequential(nn.Linear(2, 2), nn.ReLU()))
    with pytest.raises(PfedulError, match="condition=none"):
        class_embeddings(model, "1", model.state_dict())


def prompt_loss(prompt, x, y):
    """Cross-entropy behind a prompt, in numpy."""
    features = np.outer(x, [1.0, 1.0])
    changed = features * prompt
    changed *= (np.linalg.norm(features, axis=1) / np.linalg.norm(changed, axis=1))[:, None]
    logits = changed @ HEAD.double().numpy().T
    return float(np.mean(np.log(np.exp(logits).sum(1)) - logits[np.arange(len(y)), y]))


def test_the_first_step_of_a_prompt_is_down_the_numerical_slope():
    x, y, model = np.array([1.0, -0.5, 2.0]), np.array([0, 1, 1]), TwoFeatures(1.0, 1.0)
    split = FEDPER.split(model, "head")
    state = {name: tensor.clone() for name, tensor in model.state_dict().items()}
    parts = [{name: state[name] for name in names} for names in (split.shared, split.personal)]
    samples = TensorSamples(torch.tensor(x).float()[:, None], torch.tensor(y))
    training = LocalTraining(batch_size=3, lr=0.1, momentum=0.0)
    job = Job("c", model, split, "head", *parts, samples, training, NoOptions())
    found = fit_prompt(job, {"head": "head", "epochs": 1}, {}).tensors["prompt"].numpy()
    small = 1e-5 * np.eye(2)
    slopes = [(prompt_loss(1 + h, x, y) - prompt_loss(1 - h, x, y)) / 2e-5 for h in small]
    assert found == pytest.approx(1 - 0.1 * np.array(slopes), rel=1e-4)
    assert max(map(abs, slopes)) > 0.01
    assert all(torch.equal(tensor, state[name]) for name, tensor in model.state_dict().items())
    assert all(parameter.requires_grad for parameter in model.parameters())
