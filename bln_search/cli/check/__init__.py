"""The command that checks a trained network of one's own."""
