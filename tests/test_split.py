"""Splits and layers on toys with known answers, on ResNet-18, and on awkward models."""

import pytest
import torch
from torch import nn

from helpers.toys import WithNorm
from pfedul.errors import PfedulError
from pfedul.models import build_model
from pfedul.models.resnet import resnet18
from pfedul.split import (
    ROOT_LAYER,
    Split,
    head_of,
    split_all_shared,
    split_head,
    split_norm,
    split_whole,
)


class RootParameter(nn.Module):
    """A parameter on the model itself, then a norm ahead of every other layer."""

    def __init__(self) -> None:
        super().__init__()
        self.scale = nn.Parameter(torch.ones(3))
        self.first_norm = nn.LayerNorm(4)
        self.body = nn.Linear(4, 3)
        self.head = nn.Linear(3, 2)


class Transformer(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.embedding = nn.Embedding(10, 8)
        self.block = nn.TransformerEncoderLayer(8, nhead=2, dim_feedforward=16)
        self.out = nn.Linear(8, 3)


class TiedLanguageModel(nn.Module):
    """Input and output embeddings are one parameter under two names."""

    def __init__(self) -> None:
        super().__init__()
        self.embedding = nn.Embedding(10, 4)
        self.body = nn.Linear(4, 4)
        self.decoder = nn.Linear(4, 10)
        self.decoder.weight = self.embedding.weight


def nested() -> nn.Module:
    inner = nn.Sequential(nn.Linear(4, 3), nn.BatchNorm1d(3), nn.ReLU())
    return nn.Sequential(inner, nn.Sequential(nn.Linear(3, 3), nn.LayerNorm(3)), nn.Linear(3, 2))


def mobile_block() -> nn.Module:
    """Depthwise-separable, as in MobileNet: no BatchNorm has a telling name."""
    return nn.Sequential(
        nn.Sequential(nn.Conv2d(3, 8, 3, bias=False), nn.BatchNorm2d(8), nn.ReLU6()),
        nn.Sequential(nn.Conv2d(8, 8, 3, groups=8, bias=False), nn.BatchNorm2d(8), nn.ReLU6()),
        nn.Sequential(nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(8, 2)),
    )


def head_with_batchnorm() -> nn.Module:
    head = nn.Sequential(nn.Linear(4, 4), nn.BatchNorm1d(4), nn.ReLU(), nn.Linear(4, 2))
    model = nn.Sequential()
    model.add_module("body", nn.Linear(3, 4))
    model.add_module("body_norm", nn.BatchNorm1d(4))
    model.add_module("head", head)
    return model


MODELS = {
    "resnet18": lambda: resnet18(width=2),
    "resnet18-group": lambda: resnet18(width=4, norm="group"),
    "cnn": lambda: build_model("cnn:width=2", (1, 8, 8), 3),
    "mlp": lambda: build_model("mlp:hidden=4", (5,), 3),
    "nested": nested,
    "root-parameter": RootParameter,
    "transformer": Transformer,
    "tied": TiedLanguageModel,
    "mobile": mobile_block,
    "head-with-batchnorm": head_with_batchnorm,
}
SPLITS = {
    "all-shared": split_all_shared,
    "head": split_head,
    "norm": split_norm,
    "whole": split_whole,
}


def layer_tensors(split: Split) -> dict[str, tuple[str, ...]]:
    return {layer.name: layer.tensors for layer in split.layers}


WITHOUT_BATCHNORM = {"resnet18-group", "mlp", "root-parameter", "transformer", "tied"}
PAIRS = [(m, s) for m in MODELS for s in SPLITS if s != "norm" or m not in WITHOUT_BATCHNORM]


@pytest.fixture(params=PAIRS, ids="-".join)
def model_and_split(request: pytest.FixtureRequest) -> tuple[nn.Module, Split]:
    model_name, split_name = request.param
    model = MODELS[model_name]()
    return model, SPLITS[split_name](model)


# Properties of every split of every model.


def test_every_tensor_is_on_one_side_in_state_dict_order(model_and_split):
    model, split = model_and_split
    names = list(model.state_dict())
    assert [name for name in names if name in split.shared] == list(split.shared)
    assert [name for name in names if name in split.personal] == list(split.personal)
    assert set(split.shared) | set(split.personal) == set(names)
    if split.personal != split.shared:
        assert not set(split.shared) & set(split.personal)


def test_every_shared_parameter_is_in_exactly_one_layer(model_and_split):
    model, split = model_and_split
    parameters = {name for name, _ in model.named_parameters(remove_duplicate=False)}
    grouped = [name for layer in split.layers for name in layer.tensors]
    assert split.parameter_names == parameters
    assert sorted(grouped) == sorted(parameters & set(split.shared))
    assert len({layer.name for layer in split.layers}) == len(split.layers)
    assert all(layer.tensors for layer in split.layers)


def test_counts_of_layers_agree_with_the_model(model_and_split):
    model, split = model_and_split
    shared = {id(p): p.numel() for name, p in model.named_parameters() if name in split.shared}
    assert sum(layer.parameters for layer in split.layers) == sum(shared.values())


def test_splitting_leaves_the_model_as_it_was(model_and_split):
    model, _ = model_and_split
    before = {name: tensor.clone() for name, tensor in model.state_dict().items()}
    split_whole(model)
    assert all(torch.equal(before[name], now) for name, now in model.state_dict().items())
    assert all(parameter.grad is None for parameter in model.parameters())


# The four splits on toys.


def test_all_shared_keeps_nothing_personal():
    split = split_all_shared(nested())
    assert split.personal == ()


def test_whole_is_all_shared_and_all_personal():
    split = split_whole(nested())
    assert split.shared == split.personal == tuple(nested().state_dict())
    assert split.layers == split_all_shared(nested()).layers


def test_head_split_of_a_toy():
    split = split_head(nested())
    assert split.personal == ("2.weight", "2.bias")


def test_norm_split_of_a_toy_has_the_statistics():
    split = split_norm(nested())
    assert split.personal == (
        "0.1.weight",
        "0.1.bias",
        "0.1.running_mean",
        "0.1.running_var",
        "0.1.num_batches_tracked",
    )


# Which head.


def test_head_is_the_override_then_the_declaration_then_the_last_linear():
    model = resnet18(width=2)
    assert head_of(model, "layer4") == "layer4"
    assert head_of(model) == "fc"
    assert head_of(nested()) == "2"
    assert head_of(Transformer()) == "out"


def test_a_declared_head_beats_the_last_linear():
    model = RootParameter()
    model.head_name = "body"
    assert head_of(model) == "body"


def test_a_linear_layer_beats_a_later_weight_matrix():
    assert head_of(nn.Sequential(nn.Linear(4, 2), nn.Conv2d(4, 2, 1))) == "0"


def test_a_head_does_not_take_a_namesake_with_a_longer_name():
    model = nn.Sequential(*(nn.Linear(2, 2) for _ in range(11)))
    assert split_head(model, "1").personal == ("1.weight", "1.bias")


def test_without_a_linear_the_last_weight_matrix_is_the_head():
    model = nn.Sequential(nn.Conv2d(3, 4, 3), nn.Conv2d(4, 2, 1), nn.BatchNorm2d(2))
    assert head_of(model) == "1"


@pytest.mark.parametrize("head", ["nowhere", "1", "0.weight"])
def test_a_head_must_be_a_submodule_with_parameters(head):
    model = nn.Sequential(nn.Linear(2, 2), nn.ReLU(), nn.Linear(2, 2))
    with pytest.raises(PfedulError, match=r"pass head=\.\.\. with the name of one, such as: 0, 2"):
        split_head(model, head)


def test_a_declared_head_that_is_gone_is_an_error():
    model = RootParameter()
    model.head_name = "classifier"
    with pytest.raises(PfedulError, match="The head 'classifier' is not a submodule"):
        split_head(model)


def test_a_model_in_which_nothing_looks_like_a_head_asks_for_one():
    with pytest.raises(PfedulError, match=r"pass head=\.\.\."):
        split_head(nn.Sequential(nn.BatchNorm1d(3)))


def test_a_head_that_is_the_whole_model_leaves_nothing_to_share():
    with pytest.raises(PfedulError, match="left to share"):
        split_head(nn.Sequential(nn.Flatten(), nn.Linear(4, 2)))


def test_a_model_without_parameters_has_nothing_to_share():
    with pytest.raises(PfedulError, match="left to share"):
        split_all_shared(nn.ReLU())


def test_a_lazy_model_asks_for_a_batch_first():
    model = nn.Sequential(nn.LazyLinear(3), nn.Linear(3, 2))
    with pytest.raises(PfedulError, match="run one batch"):
        split_head(model)
    model(torch.ones(1, 5))
    assert split_head(model).layers[0].parameters == 5 * 3 + 3


# Layers.


def test_norms_join_the_layer_before_them():
    assert layer_tensors(split_all_shared(nested())) == {
        "0.0": ("0.0.weight", "0.0.bias", "0.1.weight", "0.1.bias"),
        "1.0": ("1.0.weight", "1.0.bias", "1.1.weight", "1.1.bias"),
        "2": ("2.weight", "2.bias"),
    }


def test_root_parameters_are_a_layer_and_a_leading_norm_joins_the_next_one():
    split = split_head(RootParameter())
    assert layer_tensors(split) == {
        ROOT_LAYER: ("scale",),
        "body": ("first_norm.weight", "first_norm.bias", "body.weight", "body.bias"),
    }
    assert [layer.parameters for layer in split.layers] == [3, 4 + 4 + 12 + 3]


@pytest.mark.parametrize(
    "norm",
    [
        nn.BatchNorm1d(3),
        nn.SyncBatchNorm(3),
        nn.InstanceNorm1d(3, affine=True),
        nn.GroupNorm(1, 3),
        nn.LayerNorm(3),
        nn.RMSNorm(3),
    ],
    ids=lambda norm: type(norm).__name__,
)
def test_every_kind_of_norm_joins(norm):
    model = nn.Sequential(nn.Linear(3, 3), norm, nn.Linear(3, 2))
    assert [layer.name for layer in split_all_shared(model).layers] == ["0", "2"]


def test_norms_alone_are_one_layer():
    split = split_all_shared(nn.Sequential(nn.LayerNorm(3), nn.LayerNorm(3)))
    assert [(layer.name, layer.parameters) for layer in split.layers] == [("0", 12)]


def test_a_norm_after_a_personal_head_joins_the_shared_layer_before_it():
    model = nn.Sequential(nn.Linear(4, 3), nn.Linear(3, 3), nn.LayerNorm(3))
    assert layer_tensors(split_head(model)) == {"0": ("0.weight", "0.bias", "2.weight", "2.bias")}


def test_layers_of_a_transformer():
    layers = layer_tensors(split_head(Transformer()))
    assert list(layers) == [
        "embedding",
        "block.self_attn",
        "block.self_attn.out_proj",
        "block.linear1",
        "block.linear2",
    ]
    assert layers["block.self_attn"] == (
        "block.self_attn.in_proj_weight",
        "block.self_attn.in_proj_bias",
    )
    assert "block.norm2.weight" in layers["block.linear2"]


def test_layers_as_told_keep_their_order_and_cover_what_is_beneath():
    told = {"late": ["1", "2"], "early": ["0"]}
    layers = layer_tensors(split_all_shared(nested(), layers=told))
    assert list(layers) == ["late", "early"]
    assert layers["early"] == ("0.0.weight", "0.0.bias", "0.1.weight", "0.1.bias")


def test_layers_as_told_may_name_a_single_parameter():
    told = {"token": ["scale"], "rest": ["first_norm", "body", "head"]}
    split = split_all_shared(RootParameter(), layers=told)
    assert [(layer.name, layer.parameters) for layer in split.layers] == [
        ("token", 3),
        ("rest", 31),
    ]


def test_layers_as_told_beat_the_layers_that_the_model_declares():
    model = resnet18(width=2)
    told = {"all": ["conv1", "bn1", "layer1", "layer2", "layer3", "layer4", "fc"]}
    assert [layer.name for layer in split_all_shared(model, layers=told).layers] == ["all"]


def test_groups_that_are_all_personal_are_dropped():
    told = {"body": ["0", "1"], "head": ["2"]}
    assert list(layer_tensors(split_head(nested(), layers=told))) == ["body"]
    assert list(layer_tensors(split_all_shared(nested(), layers=told))) == ["body", "head"]


@pytest.mark.parametrize(
    ("told", "sentence"),
    [
        ({"body": ["0", "1"], "head": ["fc"]}, "The layer 'head' names 'fc'"),
        ({"body": ["0"], "head": ["2"]}, "'1.0.weight' is in no layer; add '1.0' to one of"),
        ({"body": ["0", "1"], "head": ["1.1", "2"]}, "'1.1.weight' is in the layers 'body' and"),
    ],
)
def test_wrong_groups_are_refused(told, sentence):
    with pytest.raises(PfedulError, match=sentence):
        split_all_shared(nested(), layers=told)


# Tied tensors.


def test_a_tied_tensor_is_one_layer_under_both_names_and_counted_once():
    split = split_all_shared(TiedLanguageModel())
    assert layer_tensors(split)["embedding"] == ("embedding.weight", "decoder.weight")
    assert [layer.parameters for layer in split.layers] == [40, 20, 10]


def test_a_tensor_tied_to_the_head_is_personal_under_both_names():
    split = split_head(TiedLanguageModel(), "decoder")
    assert split.personal == ("embedding.weight", "decoder.weight", "decoder.bias")
    assert split.shared == ("body.weight", "body.bias")


def test_a_module_that_is_used_twice_is_personal_under_both_names():
    norm = nn.BatchNorm1d(3)
    split = split_norm(nn.Sequential(nn.Linear(3, 3), norm, nn.Linear(3, 3), norm))
    assert split.shared == ("0.weight", "0.bias", "2.weight", "2.bias")


# ResNet-18.


def expected_resnet_layers() -> dict[str, tuple[str, ...]]:
    layers = {"conv1": ("conv1.weight", "bn1.weight", "bn1.bias")}
    for block in (f"layer{stage}.{index}" for stage in (1, 2, 3, 4) for index in (0, 1)):
        for i in (1, 2):
            norm = f"{block}.bn{i}"
            layers[f"{block}.conv{i}"] = (
                f"{block}.conv{i}.weight",
                f"{norm}.weight",
                f"{norm}.bias",
            )
    for block in ("layer2.0", "layer3.0", "layer4.0"):
        shortcut = ("downsample.0.weight", "downsample.1.weight", "downsample.1.bias")
        layers[f"{block}.conv1"] += tuple(f"{block}.{name}" for name in shortcut)
    return layers


def test_resnet18_has_the_17_layers_of_the_paper_under_fedper():
    split = split_head(resnet18(width=2))
    assert len(split.layers) == 17
    assert layer_tensors(split) == expected_resnet_layers()


def test_resnet18_has_the_head_as_18th_layer_under_fedavg():
    layers = layer_tensors(split_all_shared(resnet18(width=2)))
    assert layers == expected_resnet_layers() | {"fc": ("fc.weight", "fc.bias")}
    assert list(layers)[-1] == "fc"


def test_resnet18_layers_hold_convolutions_and_the_head_only_under_fedbn():
    layers = layer_tensors(split_norm(resnet18(width=2)))
    assert len(layers) == 18
    assert layers["layer3.0.conv1"] == ("layer3.0.conv1.weight", "layer3.0.downsample.0.weight")
    assert not any("bn" in name for names in layers.values() for name in names)


def test_shared_parameters_of_resnet18():
    model = resnet18()
    # The head is 512 * 10 + 10; the BatchNorms have 4800 channels in all.
    shared = {
        split: sum(layer.parameters for layer in split(model).layers)
        for split in (split_all_shared, split_head, split_norm)
    }
    assert shared[split_all_shared] == 11_173_962
    assert shared[split_head] == 11_173_962 - 5_130
    assert shared[split_norm] == 11_173_962 - 9_600


# BatchNorm traps, each of them seen in a public framework.


def naive_batchnorms(model: nn.Module) -> set[str]:
    return {name.rpartition(".")[0] for name in model.state_dict() if "bn" in name}


def personal_modules(split: Split) -> set[str]:
    return {name.rpartition(".")[0] for name in split.personal}


def test_choosing_batchnorm_by_name_misses_three_in_resnet18_and_type_does_not():
    model = resnet18(width=2)
    by_type = personal_modules(split_norm(model))
    assert len(by_type) == 20
    assert by_type - naive_batchnorms(model) == {
        "layer2.0.downsample.1",
        "layer3.0.downsample.1",
        "layer4.0.downsample.1",
    }


def test_choosing_batchnorm_by_name_misses_all_in_a_mobilenet_block_and_type_does_not():
    model = mobile_block()
    assert naive_batchnorms(model) == set()
    assert personal_modules(split_norm(model)) == {"0.1", "1.1"}


def test_sync_batchnorm_is_a_batchnorm():
    model = nn.SyncBatchNorm.convert_sync_batchnorm(mobile_block())
    assert personal_modules(split_norm(model)) == {"0.1", "1.1"}


@pytest.mark.parametrize("name", sorted(WITHOUT_BATCHNORM))
def test_fedbn_on_a_model_without_batchnorm_says_so(name):
    with pytest.raises(PfedulError, match="this model has none: use a model with BatchNorm"):
        split_norm(MODELS[name]())


def test_running_statistics_travel_with_the_head_that_holds_them():
    split = split_head(head_with_batchnorm(), "head")
    statistics = ("running_mean", "running_var", "num_batches_tracked")
    assert {f"head.1.{name}" for name in statistics} <= set(split.personal)
    assert {f"body_norm.{name}" for name in statistics} <= set(split.shared)
    assert not any(name.startswith("head") for name in split.shared)


def test_a_container_as_head_is_personal_as_a_whole():
    split = split_head(head_with_batchnorm(), "head")
    assert {"head.0.weight", "head.1.weight", "head.3.bias"} <= set(split.personal)
    assert list(layer_tensors(split)) == ["body"]


def test_running_statistics_never_enter_layers_or_parameter_names():
    split = split_all_shared(head_with_batchnorm())
    grouped = {name for layer in split.layers for name in layer.tensors}
    assert not any("running" in name or "tracked" in name for name in grouped)
    assert grouped == split.parameter_names


def test_a_split_says_what_makes_features_personal():
    model = WithNorm()
    assert split_all_shared(model).personal_features("head") == ()
    assert split_head(model).personal_features("head") == ()
    assert split_head(model).personal_features(None) == ("head.weight", "head.bias")
    assert split_norm(model).personal_features("head") == split_norm(model).personal != ()
    below = tuple(name for name in split_whole(model).shared if not name.startswith("head."))
    assert split_whole(model).personal_features("head") == below


def test_only_a_split_that_keeps_everything_keeps_whole_models():
    model = WithNorm()
    others = [split(model) for split in (split_all_shared, split_head, split_norm)]
    assert split_whole(model).keeps_whole_models
    assert not any(split.keeps_whole_models for split in others)
