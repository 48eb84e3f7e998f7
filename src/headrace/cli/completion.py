"""`headrace completion`."""

from __future__ import annotations

import click
from click.shell_completion import get_completion_class

from headrace.cli.output import say


@click.command()
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
@click.pass_context
def completion(context: click.Context, shell: str) -> None:
    """Print the shell's completion script.

    \b
    Examples:
      eval "$(headrace completion bash)"          # in ~/.bashrc
      eval "$(headrace completion zsh)"           # in ~/.zshrc
      headrace completion fish > ~/.config/fish/completions/headrace.fish
    """
    complete = get_completion_class(shell)
    assert complete is not None
    say(complete(context.find_root().command, {}, "headrace", "_HEADRACE_COMPLETE").source())
