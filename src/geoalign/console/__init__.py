"""How commands are made of dataclasses, and how they talk: options, terminal, numbers."""
