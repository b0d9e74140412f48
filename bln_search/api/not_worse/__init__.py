"""Is a network not worse than another one: both on the same examples, and what a test says about it."""
