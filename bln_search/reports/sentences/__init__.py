"""English text of results: `bln_search.ranking` returns data, this package writes the sentences."""
