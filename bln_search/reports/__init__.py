"""Reports: sentences, tables, charts, exports and pages made from results."""
