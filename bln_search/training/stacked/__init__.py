"""Training of several networks of one structure as one program, whose tensors hold the networks on an axis."""
