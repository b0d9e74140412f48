"""Commands that show, compare, export and publish results of studies."""
