"""Networks with planted faults for the benchmark of `bln_search.check`."""
