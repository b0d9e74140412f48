"""The AP2 paper's experiments: results by data set, start and method, and the tables and charts of docs/ap2.md."""
