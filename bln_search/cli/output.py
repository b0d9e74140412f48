"""Standard output for results, standard error for everything else."""

from __future__ import annotations

import shutil
import sys
from enum import StrEnum

from rich.console import Console

_PIPE_WIDTH = 160
results = Console(width=None if sys.stdout.isatty() else max(_PIPE_WIDTH, shutil.get_terminal_size().columns))
errors = Console(stderr=True)


class Format(StrEnum):
    """How results are printed."""

    TABLE = "table"
    CSV = "csv"
    JSON = "json"
