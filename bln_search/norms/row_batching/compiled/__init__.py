"""Optional kernels compiled by Numba (extra `fast`), each with the same result as a sequence of torch operations."""
