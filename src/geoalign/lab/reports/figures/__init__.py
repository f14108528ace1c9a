"""The figures of a report, one idea a file. Each is a `Panel`, drawn once for light and once for dark pages."""
