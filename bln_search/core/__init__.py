"""The words everybody uses: statistics, configurations, states, records, errors. Imports nothing of the other rooms."""
