"""The typed settings of the commands, and from YAML to them; importing them loads no torch."""
