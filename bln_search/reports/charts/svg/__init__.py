"""Charts as SVG for notebooks, drawn without a browser or another package, in the color of the text around them."""
