"""Claims of the papers, their evidence in bench/results, and the marks of docs/papers.md and its pages."""
