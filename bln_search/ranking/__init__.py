"""Rank the results of a study and compare rows statistically. Returns data; `bln_search.reports` writes the text."""
