"""Helpers of the routes that return results: the leaderboard and checkpoint files."""
