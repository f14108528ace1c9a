"""Every sentence of an audit, written once: the terminal, the page and a notebook show the same words."""
