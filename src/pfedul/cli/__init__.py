"""The command line: parses and prints, nothing else."""

from pfedul.cli.main import main as main
