"""The compiled passes against plain formulas, where single precision ends and vectors do."""

import math
import shutil
import sysconfig
from pathlib import Path

import numpy as np
import pytest
import torch

from pfedul import compiled
from pfedul.unlearn import CORRECTIONS
from pfedul.unlearn.pfedul.corrections import LayerView

COMPILER = (sysconfig.get_config_var("CC") or "cc").split()[0]
HEADER = Path(sysconfig.get_path("include")) / "Python.h"

needs_kernels = pytest.mark.skipif(not compiled.COMPILED, reason="no C compiler at installation")


@pytest.mark.skipif(not (shutil.which(COMPILER) and HEADER.exists()), reason="no C compiler")
def test_where_there_is_a_compiler_the_passes_are_compiled():
    assert compiled.COMPILED


def drawn(seed: int, size: int, scale: float = 1.0) -> torch.Tensor:
    return scale * torch.randn(size, generator=torch.Generator().manual_seed(seed))


SIZES = [0, 1, 15, 16, 17, 255, 256, 257, 1000]
SCALES = [1e-30, 1.0, 1e25]


@needs_kernels
@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("scale", SCALES)
def test_sums_are_those_of_double_precision(size, scale):
    x = drawn(0, size, scale)
    assert compiled.sum_of(x) == pytest.approx(float(x.double().sum()), rel=1e-9)
    assert compiled.square_sum(x) == pytest.approx(float(x.double().square().sum()), rel=1e-9)


@needs_kernels
def test_bits_do_not_depend_on_where_numbers_lie():
    numbers, room = drawn(0, 1000), torch.empty(1016)
    for pass_over in (compiled.sum_of, compiled.square_sum):
        assert len({pass_over(room[at : at + 1000].copy_(numbers)) for at in range(16)}) == 1


@needs_kernels
@pytest.mark.parametrize("size", [1, 15, 300])
def test_the_last_of_the_highest(size):
    values = drawn(0, size).abs()
    values[::7] = -0.0  # no share is below zero, but a zero may have a sign
    ordered = np.sort(np.abs(values.numpy()))[::-1]
    for count in range(1, size + 1):
        last = ordered[count - 1]
        wanted = count - int((ordered > last).sum())
        assert compiled.last_of(values, count) == (last, wanted, int((ordered == last).sum()))
    with pytest.raises(ValueError, match="rank"):
        compiled.last_of(values, size + 1)


def test_other_tensors_are_left_to_torch(monkeypatch):
    plain = torch.ones(4, 2)
    assert compiled.fits(plain) == compiled.COMPILED
    assert not compiled.fits(plain, plain.double())
    assert not compiled.fits(plain.t())
    monkeypatch.setattr(compiled, "COMPILED", False)
    assert not compiled.fits(plain)


def view_of(size: int, scale: float) -> LayerView:
    own = {"w": drawn(2, size).square() * scale}
    total = {"w": own["w"] + drawn(3, size).square() * scale}
    own["w"][::5] = 0.0
    return LayerView({"w": drawn(0, size)}, {"w": drawn(1, size)}, own, total, 0.3, 0.4, 0.3)


@needs_kernels
@pytest.mark.parametrize("size", SIZES[1:])
@pytest.mark.parametrize("scale", [1e-44, 1e-38, 1e-12, 1.0, 1e30])
@pytest.mark.parametrize("spec", ["paper:step=0.5,clip=0.2", "trust-region:clip=0.2", "reset:0.3"])
def test_compiled_or_not_the_correction_is_the_same(spec, size, scale, monkeypatch):
    correction, options = CORRECTIONS.parse(spec)
    view = view_of(size, scale)
    fast = correction.correct(view, options)
    monkeypatch.setattr(compiled, "COMPILED", False)
    slow = correction.correct(view, options)
    torch.testing.assert_close(fast.tensors, slow.tensors, rtol=1e-6, atol=1e-7)
    assert fast.changes == pytest.approx(slow.changes, rel=1e-5)
    assert (fast.at_bound, fast.norm) == pytest.approx((slow.at_bound, slow.norm), rel=1e-6)
    if spec.startswith("reset"):
        assert torch.equal(fast.tensors["w"], slow.tensors["w"])


@needs_kernels
@pytest.mark.parametrize("spec", ["paper", "trust-region", "reset"])
def test_weights_that_are_not_finite_are_seen(spec):
    correction, options = CORRECTIONS.parse(spec)
    view = view_of(300, 1.0)
    view.shared["w"][7] = math.nan
    found = correction.correct(view, options)
    assert not math.isfinite(found.norm + found.changes["w"])


@needs_kernels
def test_changes_too_small_to_be_squared_in_single_precision_are_seen():
    theta, start = torch.full((300,), 3e-30), torch.full((300,), 2e-30)
    fisher = {"w": torch.ones(300)}
    view = LayerView({"w": theta}, {"w": start}, fisher, fisher, 1.0, 1.0, 1.0)
    correction, options = CORRECTIONS.parse("reset:1")
    found = correction.correct(view, options)
    assert found.changes["w"] == pytest.approx(1e-30 * math.sqrt(300), rel=1e-5)
    assert found.norm == pytest.approx(3e-30 * math.sqrt(300), rel=1e-5)
