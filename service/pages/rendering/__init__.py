"""Templates, static files and what every page shares."""
