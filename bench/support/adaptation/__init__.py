"""Networks and streams of the bench of test-time adaptation."""
