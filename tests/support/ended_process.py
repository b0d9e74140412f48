"""The name of a process of this machine that has ended, as a ledger names it."""

from __future__ import annotations

from bln_search.core.process_identity import name_of_this_process


def name_of_ended_process():
    """Its id belongs to another process now, which started later."""
    host, pid, start = name_of_this_process().rsplit("/", 2)
    return f"{host}/{pid}/1-{start.partition('-')[2]}"
