"""ResNet-18 against the published counts, torchvision's names, and a second implementation."""

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from pfedul.errors import PfedulError
from pfedul.models.resnet import resnet18

BLOCKS = [f"layer{stage}.{block}" for stage in (1, 2, 3, 4) for block in (0, 1)]
WITH_SHORTCUT = {"layer2.0", "layer3.0", "layer4.0"}


def count(model: nn.Module) -> int:
    return sum(parameter.numel() for parameter in model.parameters())


def batchnorm_names(name: str) -> list[str]:
    tensors = ("weight", "bias", "running_mean", "running_var", "num_batches_tracked")
    return [f"{name}.{tensor}" for tensor in tensors]


def block_names(block: str) -> list[str]:
    names = [f"{block}.conv1.weight", *batchnorm_names(f"{block}.bn1")]
    names += [f"{block}.conv2.weight", *batchnorm_names(f"{block}.bn2")]
    if block in WITH_SHORTCUT:
        names += [f"{block}.downsample.0.weight", *batchnorm_names(f"{block}.downsample.1")]
    return names


def torchvision_names() -> list[str]:
    blocks = [name for block in BLOCKS for name in block_names(block)]
    return ["conv1.weight", *batchnorm_names("bn1"), *blocks, "fc.weight", "fc.bias"]


def test_parameter_count_with_cifar_stem():
    assert count(resnet18()) == 11_173_962


def test_parameter_count_with_imagenet_stem():
    assert count(resnet18(classes=1000, stem="imagenet")) == 11_689_512


@pytest.mark.parametrize("stem", ["cifar", "imagenet"])
def test_state_dict_has_the_names_and_the_order_of_torchvision(stem):
    names = list(resnet18(stem=stem, width=2).state_dict())
    assert len(names) == 122
    assert names == torchvision_names()


def test_shapes_of_the_imagenet_model_are_the_standard_ones():
    state = resnet18(classes=1000, stem="imagenet").state_dict()
    assert state["conv1.weight"].shape == (64, 3, 7, 7)
    assert state["layer1.0.conv1.weight"].shape == (64, 64, 3, 3)
    assert state["layer2.0.conv1.weight"].shape == (128, 64, 3, 3)
    assert state["layer4.0.downsample.0.weight"].shape == (512, 256, 1, 1)
    assert state["fc.weight"].shape == (1000, 512)


class FunctionalResNet:
    """The network of the paper written from its state dict alone, in evaluation mode."""

    def __init__(self, state: dict[str, Tensor], stem: str) -> None:
        self.state, self.stem = state, stem

    def conv(self, x: Tensor, conv: str, norm: str, stride: int) -> Tensor:
        weight = self.state[f"{conv}.weight"]
        x = F.conv2d(x, weight, stride=stride, padding=weight.shape[-1] // 2)
        mean, var = self.state[f"{norm}.running_mean"], self.state[f"{norm}.running_var"]
        return F.batch_norm(x, mean, var, self.state[f"{norm}.weight"], self.state[f"{norm}.bias"])

    def block(self, x: Tensor, name: str) -> Tensor:
        stride = 2 if name in WITH_SHORTCUT else 1
        out = F.relu(self.conv(x, f"{name}.conv1", f"{name}.bn1", stride))
        out = self.conv(out, f"{name}.conv2", f"{name}.bn2", 1)
        if name in WITH_SHORTCUT:
            x = self.conv(x, f"{name}.downsample.0", f"{name}.downsample.1", 2)
        return F.relu(out + x)

    def __call__(self, x: Tensor) -> Tensor:
        imagenet = self.stem == "imagenet"
        x = F.relu(self.conv(x, "conv1", "bn1", 2 if imagenet else 1))
        x = F.max_pool2d(x, 3, 2, 1) if imagenet else x
        for block in BLOCKS:
            x = self.block(x, block)
        return x.mean((2, 3)) @ self.state["fc.weight"].T + self.state["fc.bias"]


@pytest.mark.parametrize("stem", ["cifar", "imagenet"])
def test_forward_agrees_with_a_second_implementation(stem):
    torch.manual_seed(0)
    model = resnet18(width=4, stem=stem).double()
    model(torch.randn(8, 3, 64, 64).double())  # moves the running statistics off their defaults
    x = torch.randn(2, 3, 64, 64).double()
    expected = FunctionalResNet(model.state_dict(), stem)(x)
    torch.testing.assert_close(model.eval()(x), expected)


def test_convolutions_start_as_the_paper_says():
    torch.manual_seed(0)
    weight = resnet18().layer2[0].conv1.weight
    fan_out = 128 * 3 * 3
    assert weight.std().item() == pytest.approx((2 / fan_out) ** 0.5, rel=0.02)


@pytest.mark.parametrize(("width", "groups"), [(64, {32}), (16, {8, 16, 32}), (3, {1, 3, 6, 12})])
def test_group_norm_has_at_most_32_groups_of_at_least_two_channels(width, groups):
    norms = [m for m in resnet18(width=width, norm="group").modules() if type(m) is nn.GroupNorm]
    assert len(norms) == 20
    assert {norm.num_groups for norm in norms} == groups


@pytest.mark.parametrize(("norm", "independent"), [("group", True), ("batch", False)])
def test_only_group_norm_keeps_samples_of_a_batch_apart(norm, independent):
    torch.manual_seed(0)
    model = resnet18(width=4, norm=norm).double().train()
    x = torch.randn(4, 3, 16, 16).double()
    assert torch.allclose(model(x)[:2], model(x[:2])) is independent


def test_group_norm_does_not_silence_small_images():
    torch.manual_seed(0)
    model = resnet18(width=4, channels=1, norm="group")
    a, b = model.features(torch.randn(2, 1, 8, 8))
    assert not torch.allclose(a, b)


def test_a_wrong_option_in_python_is_a_sentence_too():
    with pytest.raises(PfedulError, match="stem is one of cifar, imagenet, not 'tiny'"):
        resnet18(stem="tiny")


def test_layer_groups_are_17_convolutions_and_the_head():
    groups = resnet18(width=2).layer_groups()
    assert len(groups) == 18
    assert groups["layer2.0.conv1"] == ["layer2.0.conv1", "layer2.0.bn1", "layer2.0.downsample"]
    assert groups["layer1.0.conv1"] == ["layer1.0.conv1", "layer1.0.bn1"]
