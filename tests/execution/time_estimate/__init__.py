"""The estimated duration of a study."""
