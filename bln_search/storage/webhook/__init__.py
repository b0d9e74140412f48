"""The webhook in the database: ends of studies to announce, and deliveries of messages."""
