"""Compare the program with the recording, or record anew: `python -m tests.promises.record --accept NAME`."""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
from pathlib import Path

import pytest
import torch

from tests.promises import recording
from tests.promises.interfaces import list_commands, list_python_names, list_rest_names, list_written_files
from tests.promises.own_network import compute_tables
from tests.promises.tables import STUDIES, read_table, run_study

INTERFACES = {"rest": list_rest_names, "command_line": list_commands, "python": list_python_names}
NAMES = (*STUDIES, "own_network", *INTERFACES, "files")
STUDY_OF_FILES = "shift"
"""The study whose files are recorded: it has conditions, blends and results on the training split."""


def find_entries(name, home):
    """The entries of the present program, in a new home."""
    if name in STUDIES:
        run_study(name, home)
        return read_table(name, home)
    if name == "files":
        run_study(STUDY_OF_FILES, home)
        return list_written_files(STUDY_OF_FILES, home)
    return compute_tables() if name == "own_network" else INTERFACES[name]()


def find_entries_in_new_home(name):
    """The entries of the present program, without the settings and the data of the user."""
    with tempfile.TemporaryDirectory() as folder, pytest.MonkeyPatch.context() as patch:
        for variable in [variable for variable in os.environ if variable.startswith("BLN_SEARCH_")]:
            patch.delenv(variable)
        patch.setenv("BLN_SEARCH_HOME", folder)
        patch.setenv("BLN_SEARCH_CACHE", f"{folder}/cache")
        return find_entries(name, Path(folder))


def main(words):
    """Return the exit status: 1 if something differs and is not accepted."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", choices=[*NAMES, []], help="by default all of them")
    parser.add_argument("--accept", action="append", choices=NAMES, default=[], help="record this one anew")
    given = parser.parse_args(words)
    torch.set_num_threads(1)
    refused = 0
    for name in given.names or given.accept or NAMES:
        entries = find_entries_in_new_home(name)
        differences = recording.find_differences(name, entries)
        if name in given.accept:
            recording.write(name, entries, computed=name in STUDIES or name == "own_network")
        refused += len(differences) if name not in given.accept else 0
        print(f"{name}: {len(differences)} of {len(entries)} entries differ{', accepted' * (name in given.accept)}")
        print("\n".join(differences[:10]))
    if refused:
        print("Nothing of this was recorded. If it is intended: --accept NAME, and say why in CHANGELOG.md.")
    return int(refused > 0)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
