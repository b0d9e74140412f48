"""Export of trained networks with their configuration, and loading of exported ones."""
