"""Results kept in memory between requests."""
