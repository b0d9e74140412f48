"""Statistics computed from weights alone: weight normalization, normalization propagation, analytic propagation."""
