"""One stream of random numbers for every (seed, purpose, round, client).

No draw depends on the draws before it. So results do not depend on the engine, the
number of workers or the order of replies; dropping a client does not change the draws of
the others; a resumed run equals one that was never interrupted.
"""

from __future__ import annotations

import hashlib
import random
from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np
import torch


def derive_seed(seed: int, purpose: str, *place: int | str) -> int:
    """A 63-bit seed for one purpose at one place, unrelated to every other.

    >>> derive_seed(0, "fit", 1, "a") == derive_seed(0, "fit", 1, "a")
    True
    >>> derive_seed(0, "fit", 1, "a") == derive_seed(0, "fit", 2, "a")
    False
    """
    words = "\x1f".join([str(seed), purpose, *map(str, place)])
    return int.from_bytes(hashlib.sha256(words.encode()).digest()[:8], "big") >> 1


def numpy_generator(seed: int, purpose: str, *place: int | str) -> np.random.Generator:
    """The numpy stream of one purpose at one place."""
    return np.random.default_rng(derive_seed(seed, purpose, *place))


@contextmanager
def random_stream(seed: int, purpose: str, *place: int | str) -> Iterator[None]:
    """Within the block torch, numpy and Python draw from one stream; the caller's are restored."""
    place_seed = derive_seed(seed, purpose, *place)
    python, legacy = random.getstate(), np.random.get_state()
    with torch.random.fork_rng(devices=[]):
        # Not torch.manual_seed, which also formats a stack trace for every kind of device.
        torch.default_generator.manual_seed(place_seed)
        if torch.cuda.is_initialized():  # type: ignore[no-untyped-call]
            torch.cuda.manual_seed_all(place_seed)
        random.seed(place_seed)
        np.random.seed(place_seed % 2**32)
        try:
            yield
        finally:
            random.setstate(python)
            np.random.set_state(legacy)
