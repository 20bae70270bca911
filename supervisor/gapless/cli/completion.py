"""The `completion` command: the script by which a shell completes commands, verbs and options."""

from __future__ import annotations

import argparse
from pathlib import Path

import shtab

from gapless.cli.commands import COMMANDS, parser_of
from gapless.cli.declare import Args, Command, opt
from gapless.cli.screen import say

EXAMPLES = """\
It is text for the shell to read: once in this session, or at its start from a file of its own.
After an upgrade of gapless write it again.

examples:
  source <(gapless completion bash)
  gapless completion bash > ~/.local/share/bash-completion/completions/gapless
  gapless completion zsh > "${fpath[1]}/_gapless"
  gapless completion fish > ~/.config/fish/completions/gapless.fish
"""
SHELLS = ("bash", "zsh", "fish")


command = Command("completion")


@command.main(opt("shell", choices=SHELLS), json=False, connects=False)
def _completion(args: Args) -> int:
    """Print the script."""
    say(completion(args.shell))
    return 0


def completion(shell: str) -> str:
    """Return the script for a shell, for every command with its verbs, options and choices."""
    parser = parser_of(*COMMANDS)
    _complete_files(parser)
    script: str = shtab.complete(parser, shell=shell)
    return script.rstrip("\n")


def _complete_files(parser: argparse.ArgumentParser) -> None:
    """Complete the values of options that take a file as files, at any depth."""
    for action in parser._actions:  # noqa: SLF001 - no public way to list them
        if action.type is Path or action.dest == "file":
            action.complete = shtab.FILE  # type: ignore[attr-defined]
        if isinstance(action, argparse._SubParsersAction):  # noqa: SLF001 - as above
            for each in set(action.choices.values()):
                _complete_files(each)
