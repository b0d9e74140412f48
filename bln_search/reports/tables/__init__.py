"""Tables of cells, which a terminal and HTML render."""
