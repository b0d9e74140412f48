"""Claims of the papers as data, and the rule that marks them."""
