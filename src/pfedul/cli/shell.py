"""The command `completion`."""

from __future__ import annotations

import click
from click.shell_completion import get_completion_class

from pfedul.cli.parts import Output, command
from pfedul.errors import PfedulError

PROGRAM, VARIABLE = "pfedul", "_PFEDUL_COMPLETE"


@command('eval "$(pfedul completion bash)"', run=False)
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
def completion(shell: str) -> Output:
    """Print the script that completes commands, options, names and clients with TAB.

    Put 'eval "$(pfedul completion bash)"' into ~/.bashrc, or the same with zsh into ~/.zshrc;
    for fish 'pfedul completion fish | source' into ~/.config/fish/config.fish.
    """
    maker = get_completion_class(shell)
    if maker is None:
        raise PfedulError(f"There is no completion for {shell}; give bash, zsh or fish.")
    script = maker(click.get_current_context().find_root().command, {}, PROGRAM, VARIABLE).source()
    return Output({"shell": shell, "script": script}, lambda: click.echo(script))
