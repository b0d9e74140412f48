"""Networks under many arms of adaptation over streams."""
