"""The report of a run: what its stages found, put into words, tables and maps for a reader."""
