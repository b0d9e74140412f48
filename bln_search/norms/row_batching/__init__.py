"""Many rows (configurations) of a network on the first axis of one tensor, and their first normalization layer."""
