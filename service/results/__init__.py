"""What routes and pages that return results share: the list of studies, the leaderboard, checkpoint files."""
