"""`python -m pfedul` is the same as `pfedul`."""

from pfedul.cli import main

main(prog_name="pfedul")
