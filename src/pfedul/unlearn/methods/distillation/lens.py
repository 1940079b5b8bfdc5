"""What distillation sees of a model: outputs, the features under its head, attention maps."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from torch import Tensor, nn
from torch.func import functional_call
from torch.nn import functional as F

from pfedul.base.inputs import answer
from pfedul.errors import PfedulError

_CONVOLUTIONS = (nn.Conv1d, nn.Conv2d, nn.Conv3d)


@dataclass(frozen=True)
class Observation:
    """Of one batch: `features` is what the head was given."""

    logits: Tensor
    features: Tensor
    maps: tuple[Tensor, ...]


@dataclass
class Lens:
    """Looks through a model with any tensors in the place of its own.

    The model is in eval mode: synthetic inputs move no running statistics.
    """

    model: nn.Module
    head: str
    _features: list[Tensor] = field(default_factory=list)
    _maps: list[Tensor] = field(default_factory=list)

    def look(self, tensors: Mapping[str, Tensor], x: Tensor) -> Observation:
        self._features.clear()
        self._maps.clear()
        known = {*dict(self.model.named_parameters()), *dict(self.model.named_buffers())}
        # Of a tied tensor the first name stands for all: two values for one tensor are an error.
        chosen = {name: tensor for name, tensor in tensors.items() if name in known}
        logits = answer(lambda *inputs: functional_call(self.model, chosen, inputs), x)
        if not self._features:
            raise PfedulError(
                f"The head '{self.head}' is not called with one tensor, so there are no "
                "features to compare; choose another method ('pfedul methods')."
            )
        return Observation(logits, self._features[-1], tuple(self._maps))

    def note_features(self, _module: nn.Module, inputs: tuple[Any, ...]) -> None:
        if inputs and isinstance(inputs[0], Tensor):
            self._features.append(inputs[0])

    def note_map(self, _module: nn.Module, _inputs: tuple[Any, ...], output: Tensor) -> None:
        self._maps.append(attention_map(output))


def attention_map(output: Tensor) -> Tensor:
    """Where a convolution is active: the mean square over its channels, of length 1."""
    return F.normalize(output.square().mean(1).flatten(1), dim=1)


@contextmanager
def lens_on(model: nn.Module, head: str) -> Iterator[Lens]:
    """Within the block the model can be looked through; it is in eval mode from then on."""
    lens = Lens(model.eval(), head)
    hooks = [model.get_submodule(head).register_forward_pre_hook(lens.note_features)]
    for module in model.modules():
        if isinstance(module, _CONVOLUTIONS):
            hooks.append(module.register_forward_hook(lens.note_map))
    try:
        yield lens
    finally:
        for hook in hooks:
            hook.remove()
