"""What every page is made of: documents, the style of figures, panels of scores; no torch."""
