"""Checks of fused passes against plain ones, in single and double precision."""
