"""Properties of every registered model, and the mistakes that users make when naming one."""

import pytest
import torch
from torch import nn

from pfedul.errors import PfedulError
from pfedul.models import MODELS, build_model

SMALL = {"resnet18": "resnet18:width=4", "cnn": "cnn:width=4", "mlp": "mlp:hidden=8"}
"""Models of images; the transformer reads tokens."""
SHAPES = [(1, 8, 8), (1, 28, 28), (3, 32, 32)]


def test_every_model_of_images_is_tried():
    assert {kind.name for kind in MODELS} == {*SMALL, "transformer"}


@pytest.fixture(params=SMALL)
def spec(request: pytest.FixtureRequest) -> str:
    return SMALL[request.param]


@pytest.mark.parametrize("shape", SHAPES)
def test_a_model_makes_one_logit_per_class_for_every_image_size(spec, shape):
    assert build_model(spec, shape, 7)(torch.randn(2, *shape)).shape == (2, 7)


def test_forward_ends_with_the_declared_head(spec):
    model = build_model(spec, (1, 8, 8), 5).eval()
    x = torch.randn(3, 1, 8, 8)
    head = model.get_submodule(model.head_name)
    assert torch.equal(model(x), head(model.features(x)))


def test_a_model_can_learn(spec):
    torch.manual_seed(0)
    learns(build_model(spec, (1, 8, 8), 2), torch.randn(16, 1, 8, 8))


def test_a_transformer_can_learn():
    torch.manual_seed(0)
    learns(build_model("transformer:width=8", (5,), 2), torch.randint(9, (16, 5)))


def learns(model: nn.Module, x: torch.Tensor) -> None:
    y = torch.arange(16) % 2
    optimiser = torch.optim.Adam(model.parameters(), lr=0.01)
    for _ in range(30):
        optimiser.zero_grad()
        nn.functional.cross_entropy(model(x), y).backward()
        optimiser.step()
    assert (model(x).argmax(1) == y).all()


def test_every_model_has_a_summary():
    assert all(kind.summary.endswith(".") for kind in MODELS)


def test_the_first_option_needs_no_key():
    assert MODELS.canonical("resnet18:imagenet") == "resnet18:stem=imagenet,width=64,norm=batch"


@pytest.mark.parametrize(
    ("spec", "shape", "classes", "sentence"),
    [
        ("vgg", (3, 32, 32), 10, "known are: resnet18, cnn, mlp"),
        ("resnet18", (64,), 10, "use the model 'mlp'"),
        ("cnn", (28, 28), 10, r"\[channels, height, width\]"),
        ("cnn", (1, 3, 8), 10, "at least 4 x 4"),
        ("mlp", (), 10, "the shape of one sample"),
        ("mlp", (3, 0), 10, "the shape of one sample"),
        ("mlp", (4,), 0, "at least one class"),
        ("resnet18:stem=tiny", (3, 32, 32), 10, "one of cifar, imagenet"),
        ("resnet18:norm=none", (3, 32, 32), 10, "one of batch, group"),
        ("resnet18:width=0", (3, 32, 32), 10, "width must be at least 1"),
        ("cnn:norm=group", (1, 8, 8), 10, "one of none, batch"),
        ("mlp:depth=0", (4,), 10, "depth must be at least 1"),
    ],
)
def test_a_mistake_is_one_sentence_that_says_what_to_do(spec, shape, classes, sentence):
    with pytest.raises(PfedulError, match=sentence) as raised:
        build_model(spec, shape, classes)
    assert str(raised.value).endswith(".")
