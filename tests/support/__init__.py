"""What several test packages share: builders of records, and quick ways to what a test only needs to start from."""
