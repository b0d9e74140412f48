"""Select a row: recommendation, rows near the best one, top group, and checks of the selected row."""
