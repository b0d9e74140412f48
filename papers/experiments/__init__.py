"""Measurements of single papers, and their claims with the rule that marks them; results are in bench/results."""
