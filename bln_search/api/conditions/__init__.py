"""Ranked tables under several validation conditions, and the recommendation over them."""
