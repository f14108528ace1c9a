"""The figures of a report. Each is a `Panel`, drawn for light pages and recoloured for dark ones."""
