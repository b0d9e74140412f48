"""Public functions leave a user's network bit for bit as it was."""
