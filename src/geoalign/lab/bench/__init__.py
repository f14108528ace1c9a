"""What curation costs on this machine, in time and memory."""
