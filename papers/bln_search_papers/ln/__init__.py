"""Ba, Kiros & Hinton 2016, Layer normalization (LN)."""
