"""Commands as users call them, run in this process."""

from __future__ import annotations

from pathlib import Path

from click.testing import CliRunner, Result

from pfedul.cli import main


def call(*words: str | Path) -> Result:
    """Run a command."""
    return CliRunner().invoke(main, [str(word) for word in words])


def succeed(*words: str | Path) -> str:
    """What a command prints that must succeed."""
    result = call(*words)
    assert result.exit_code == 0, result.output + str(result.exception)
    return result.stdout


def refuse(*words: str | Path) -> str:
    """The one sentence of a command that must fail."""
    result = call(*words)
    assert result.exit_code not in {0, None}
    assert result.stdout == ""
    assert isinstance(result.exception, SystemExit), result.exception
    lines = [line for line in result.stderr.splitlines() if line.startswith("Error:")]
    assert len(lines) == 1
    assert "Traceback" not in result.stderr
    return " ".join(result.stderr.split())
