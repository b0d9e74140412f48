"""Notebooks in a real browser: JupyterLab, marimo, and the pages that nbconvert writes."""
