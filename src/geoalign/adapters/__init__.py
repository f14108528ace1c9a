"""Adapters carry a curation out inside an engine; engines are imported only when an adapter is used."""
