"""Entry point of the command `bln-search`: it prints the version without loading the verbs, which takes seconds."""

from __future__ import annotations

import sys

from bln_search.core.version import VERSION


def main() -> None:
    """Run the command."""
    if sys.argv[1:] in (["--version"], ["-V"]):
        print(f"bln-search {VERSION}")
        return
    from bln_search.cli.main import main as run_command

    run_command()
