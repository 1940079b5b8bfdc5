"""`python -m pfedul` is the same as `pfedul`."""

from pfedul.cli.main import main

main(prog_name="pfedul")
