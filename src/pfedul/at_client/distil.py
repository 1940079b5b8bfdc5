"""Distillation at a client, through its own personal part; no sample of it is used.

The student and the generator that came along go back as they are after some iterations.
All clients draw the same noise: one seed for a round.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch

from pfedul.base.randomness import derive_seed
from pfedul.base.tensors import Tensors
from pfedul.personalization.base import Job
from pfedul.protocol import Done
from pfedul.unlearn.distillation.adam import no_moments
from pfedul.unlearn.distillation.generator import generator_for
from pfedul.unlearn.distillation.lens import Lens, lens_on
from pfedul.unlearn.distillation.loop import Cast, Side, State, iterate
from pfedul.unlearn.distillation.options import DistilOptions
from pfedul.unlearn.distillation.packing import packed, part_of
from pfedul.unlearn.distillation.parts import one_input
from pfedul.unlearn.training import options_from


def distil(job: Job, how: Mapping[str, Any], extra: Tensors) -> Done:
    """The iterations of one round; sends back student and generator."""
    options = options_from(DistilOptions, how)
    seed = derive_seed(how["seed"], "round", how["round"])
    generator = part_of(extra, "generator")
    state = State(part_of(extra, "student"), generator, no_moments(generator))
    with lens_on(job.model, how["head"]) as lens:
        cast = _cast(job, lens, how, extra)
        for number in range(1, options.iterations_per_round + 1):
            state = iterate(cast, state, options, seed, number)
    return Done(packed(student=state.student, generator=state.generator))


def _cast(job: Job, lens: Lens, how: Mapping[str, Any], extra: Tensors) -> Cast:
    like = one_input(job.samples)
    no_gate = torch.ones((), dtype=like.dtype)
    gate = part_of(extra, "gates").get(job.client, no_gate)
    leaving = part_of(extra, "leaving")
    leavers = [
        Side(part_of(extra, f"leaver{number}"), leaving.get(str(number), no_gate))
        for number in range(how["leavers"])
    ]
    mine = {name: t.clone() for name, t in job.split.beside_shared(job.personal).items()}
    own = Side(mine, gate)
    generator = generator_for(like.shape, like.dtype, how["seed"])
    start = part_of(extra, "start")
    old = {name: tensor.clone() for name, tensor in job.shared.items()}
    return Cast(lens, generator, old, start, leavers, [own], like.dtype)
