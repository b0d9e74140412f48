"""Model cards of exported networks."""
