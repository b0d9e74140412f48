"""Python interface: convert, initialize, evaluate, search, configure, export, load; corrupt images; compare scores."""
