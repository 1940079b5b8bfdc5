"""What a forked process finds, sent back on its line; its module is started by tests/engine."""

from __future__ import annotations

import os
import sys

from pfedul.engine.child import as_child


def main() -> None:
    """Say where it is and what it was given; then do as the answer says."""
    line, inherited = as_child()
    given = [os.read(descriptor, 100) for descriptor in inherited]
    environment = {name: os.environ.get(name) for name in ("OMP_NUM_THREADS", "PFEDUL_TEST")}
    line.send((os.getcwd(), sys.path, environment, given))
    print("printed")
    order = line.recv()
    if order == "fail":
        raise ValueError("as it was told")
    sys.exit(order)


if __name__ == "__main__":
    main()
