"""What several benchmarks share, and the parts of large ones; the commands are one level up."""
