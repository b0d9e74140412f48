"""Tables and charts of the documentation, made from bench/results."""
