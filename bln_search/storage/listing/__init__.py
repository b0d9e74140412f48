"""Lists for the service: filtered, sorted, one page at a time."""
