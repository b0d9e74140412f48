"""Networks of other libraries: survey, conversion and comparison with plain loops."""
