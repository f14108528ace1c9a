"""The documentation as a site: what `make docs` does besides MkDocs."""
