"""What is shared, what is personal, and which layers: the object that defines a personalisation.

Names are those of the state dict, parameters and buffers alike, so running statistics travel with
the layer they belong to. Normalisation layers are recognised by module type, never by the letters
in a name. A tied tensor (one parameter under several names) is on one side of the split and in one
layer under all its names, and is counted once.

Papers: FedAvg (McMahan et al., AISTATS 2017), FedPer (Arivazhagan et al., 2019), FedRep (Collins et
al., ICML 2021), FedBN (Li et al., ICLR 2021), Ditto (Li et al., ICML 2021).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from torch import Tensor, nn
from torch.nn.modules.batchnorm import _BatchNorm, _NormBase
from torch.nn.parameter import UninitializedBuffer, UninitializedParameter

from pfedul.errors import PfedulError

LayerGroups = Mapping[str, Sequence[str]]
"""Layer name -> dotted names of modules (with all beneath them) or of single parameters."""

ROOT_LAYER = "(root)"
"""The layer of parameters that belong to the model itself, not to a submodule."""

# _NormBase is the base of all BatchNorm and InstanceNorm classes.
_NORMALISATIONS = (_NormBase, nn.GroupNorm, nn.LayerNorm, nn.RMSNorm)

_LAZY = (UninitializedParameter, UninitializedBuffer)


@dataclass(frozen=True)
class Layer:
    """Shared parameters (never buffers) that are treated as one unit."""

    name: str
    tensors: tuple[str, ...]
    parameters: int


@dataclass(frozen=True)
class Split:
    """Which tensors are aggregated and which stay; `first_names` has each tensor's first name."""

    shared: tuple[str, ...]
    personal: tuple[str, ...]
    layers: tuple[Layer, ...]
    parameter_names: frozenset[str]
    first_names: Mapping[str, str]

    @property
    def parameters(self) -> tuple[str, ...]:
        """The shared parameters, a tied one under its first name only; norms are over these."""
        names = (name for name in self.shared if name in self.parameter_names)
        return tuple(name for name in names if self.first_names[name] == name)

    def agreeing(self, shared: Mapping[str, Tensor]) -> dict[str, Tensor]:
        """The same tensors; a tied one has the value of its first name under all its names."""
        return {name: shared[self.first_names[name]] for name in shared}

    @property
    def keeps_whole_models(self) -> bool:
        """Whether each client has a whole model of its own next to the shared one, as in Ditto."""
        return set(self.personal) == set(self.shared)

    def personal_features(self, head: str | None) -> tuple[str, ...]:
        """The personal tensors outside the head (if one is known), which make features personal."""
        own = () if head is None else _beneath(self.personal, head)
        return tuple(name for name in self.personal if name not in own)

    def beside_shared(self, personal: Mapping[str, Tensor]) -> dict[str, Tensor]:
        """The personal tensors that complete the shared ones to a model; none in Ditto."""
        return {name: tensor for name, tensor in personal.items() if name not in self.shared}


def split_all_shared(model: nn.Module, *, layers: LayerGroups | None = None) -> Split:
    """FedAvg: nothing is personal."""
    return _split(model, (), layers)


def split_head(
    model: nn.Module, head: str | None = None, *, layers: LayerGroups | None = None
) -> Split:
    """FedPer and FedRep: the head is personal.

    Examples:
        >>> split_head(nn.Sequential(nn.Linear(4, 3), nn.ReLU(), nn.Linear(3, 2))).personal
        ('2.weight', '2.bias')
    """
    return _split(model, _beneath(_tensors(model), head_of(model, head)), layers)


def split_norm(model: nn.Module, *, layers: LayerGroups | None = None) -> Split:
    """FedBN: BatchNorm layers are personal, with their running statistics."""
    modules = _modules(model)
    personal = [name for name in _tensors(model) if isinstance(modules[_owner(name)], _BatchNorm)]
    if not personal:
        raise PfedulError(
            "FedBN keeps BatchNorm layers personal and this model has none: "
            "use a model with BatchNorm or another personalisation, such as fedper."
        )
    return _split(model, personal, layers)


def split_adapters(model: nn.Module, *, layers: LayerGroups | None = None) -> Split:
    """LoRA: low-rank adapters are personal."""
    return _split(model, filter(is_adapter, _tensors(model)), layers)


def is_adapter(name: str) -> bool:
    """Whether a tensor belongs to an adapter, by the prefix that peft gives all of them.

    >>> is_adapter("fc.lora_A.default.weight"), is_adapter("fc.base_layer.weight")
    (True, False)
    """
    return any(part.startswith("lora_") for part in name.split("."))


def split_whole(model: nn.Module, *, layers: LayerGroups | None = None) -> Split:
    """Ditto: the whole model is shared, and each client has a whole model of its own as well."""
    everything_shared = split_all_shared(model, layers=layers)
    return replace(everything_shared, personal=everything_shared.shared)


def head_of(model: nn.Module, override: str | None = None) -> str:
    """The dotted name of the head: `override`, the declared one, or the last linear layer."""
    declared = getattr(model, "head_name", None) if override is None else override
    head = _last_linear(model) if declared is None else str(declared)
    names = _parameter_names(model)
    if head not in _modules(model) or not _beneath(names, head):
        owners = dict.fromkeys(_owner(name) for name in names if "." in name)
        # The last few only: heads are at the end, and a deep model has too many to print.
        known = ", ".join(list(owners)[-3:]) or "none"
        raise PfedulError(
            f"The head '{head}' is not a submodule with parameters; "
            f"pass head=... with the name of one, such as: {known}."
        )
    return head


def _last_linear(model: nn.Module) -> str:
    modules = {name: m for name, m in model.named_modules() if name and not is_adapter(name)}
    submodules = modules.items()
    linear = [name for name, module in submodules if isinstance(module, nn.Linear)]
    weighted = [name for name, module in submodules if _has_weight_matrix(module)]
    candidates: list[str] = linear or weighted
    if not candidates:
        raise PfedulError(
            "No submodule of this model looks like a head; "
            "pass head=... with the name of the submodule that makes the predictions."
        )
    last = candidates[-1]
    around = last.removesuffix(".base_layer")  # peft's layer, with the adapter
    return around if f"{around}.lora_A" in _modules(model) else last


def is_normalisation(module: nn.Module) -> bool:
    """Whether a module normalises, by its type.

    >>> is_normalisation(nn.LayerNorm((2, 2))), is_normalisation(nn.Linear(2, 2))
    (True, False)
    """
    return isinstance(module, _NORMALISATIONS)


def _has_weight_matrix(module: nn.Module) -> bool:
    weight = dict(module.named_parameters(recurse=False)).get("weight")
    return weight is not None and weight.dim() >= 2


def _split(model: nn.Module, personal: Iterable[str], groups: LayerGroups | None) -> Split:
    tensors = _tensors(model)
    first = _first_names(tensors)
    parameter_names = frozenset(_parameter_names(model))
    # By first names: were a tied tensor personal under one name and shared under another,
    # the order of loading would decide which of the two values a model holds.
    kept = {first[name] for name in personal}
    shared = tuple(name for name in tensors if first[name] not in kept)
    if parameter_names.isdisjoint(shared):
        raise PfedulError(
            "No parameter of this model is left to share; choose a smaller head "
            "or a personalisation that keeps less of the model personal."
        )
    return Split(
        shared=shared,
        personal=tuple(name for name in tensors if first[name] in kept),
        layers=_layers(model, [name for name in shared if name in parameter_names], groups),
        parameter_names=parameter_names,
        first_names=first,
    )


def _layers(model: nn.Module, shared: list[str], groups: LayerGroups | None) -> tuple[Layer, ...]:
    """These shared parameters in layers; a tied tensor is in the layer of its first name."""
    tensors = _tensors(model)
    first = _first_names(tensors)
    distinct = {name: tensors[name].numel() for name in shared if first[name] == name}
    layer_of = _layer_names(model, list(distinct), groups)
    members: dict[str, list[str]] = {layer: [] for layer in layer_of.values()}
    for name in shared:
        members[layer_of[first[name]]].append(name)
    return tuple(
        Layer(layer, tuple(names), sum(distinct.get(name, 0) for name in names))
        for layer, names in members.items()
    )


def _layer_names(model: nn.Module, names: list[str], groups: LayerGroups | None) -> dict[str, str]:
    """Parameter -> layer, by the caller's grouping, else the model's own, else module by module."""
    declared = getattr(model, "layer_groups", None)
    if groups is None and callable(declared):
        groups = declared()
    if groups is None:
        return _layer_by_module(model, names)
    _check_known(model, groups)
    return _layer_by_groups(names, groups)


def _layer_by_module(model: nn.Module, names: list[str]) -> dict[str, str]:
    """Each module starts a layer, but a normalisation layer joins the one before it."""
    modules = _modules(model)
    owners = [owner for owner in dict.fromkeys(_owner(name) for name in names) if owner]
    starts = [owner for owner in owners if not is_normalisation(modules[owner])]
    # Normalisation layers ahead of every other module join the first that follows.
    current = next(iter(starts or owners), ROOT_LAYER)
    layer_of_owner = {"": ROOT_LAYER}
    for owner in owners:
        current = owner if owner in starts else current
        layer_of_owner[owner] = current
    return {name: layer_of_owner[_owner(name)] for name in names}


def _layer_by_groups(names: list[str], groups: LayerGroups) -> dict[str, str]:
    layer_of: dict[str, str] = {}
    for layer, members in groups.items():
        for name in (name for member in members for name in _beneath(names, member)):
            if layer_of.setdefault(name, layer) != layer:
                raise PfedulError(
                    f"The parameter '{name}' is in the layers '{layer_of[name]}' and '{layer}'; "
                    "leave it in one of them."
                )
    missing = [name for name in names if name not in layer_of]
    if missing:
        raise PfedulError(
            f"The shared parameter '{missing[0]}' is in no layer; "
            f"add '{_owner(missing[0]) or missing[0]}' to one of: {', '.join(groups)}."
        )
    return layer_of


def _check_known(model: nn.Module, groups: LayerGroups) -> None:
    known = {*_modules(model), *_parameter_names(model)}
    for layer, members in groups.items():
        for member in members:
            if member not in known:
                raise PfedulError(
                    f"The layer '{layer}' names '{member}', which this model does not have; "
                    "use dotted names as in model.named_modules()."
                )


def _tensors(model: nn.Module) -> dict[str, Tensor]:
    """The state dict with the tensor objects themselves: tied names have the same object."""
    tensors = model.state_dict(keep_vars=True)
    if any(isinstance(tensor, _LAZY) for tensor in tensors.values()):
        raise PfedulError(
            "This model has lazy layers without a size; "
            "run one batch through it before it joins a federation."
        )
    return {name: tensor for name, tensor in tensors.items() if isinstance(tensor, Tensor)}


def _first_names(tensors: Mapping[str, Tensor]) -> dict[str, str]:
    """Each name -> the first name of the same tensor."""
    first: dict[int, str] = {}
    return {name: first.setdefault(id(tensor), name) for name, tensor in tensors.items()}


def _parameter_names(model: nn.Module) -> list[str]:
    return [name for name, _ in model.named_parameters(remove_duplicate=False)]


def _modules(model: nn.Module) -> dict[str, nn.Module]:
    return dict(model.named_modules(remove_duplicate=False))


def _owner(name: str) -> str:
    """The module that holds a tensor; the model itself has the empty name."""
    return name.rpartition(".")[0]


def _beneath(names: Iterable[str], module: str) -> list[str]:
    """Those of `names` that are `module` itself or below it at any depth."""
    start = f"{module}." if module else ""
    return [name for name in names if name.startswith(start) or name == module]
