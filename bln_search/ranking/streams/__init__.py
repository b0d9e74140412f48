"""Statistics of arms of adaptation over streams."""
