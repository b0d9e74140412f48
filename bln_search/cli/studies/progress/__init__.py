"""Progress and remarks of running studies."""
