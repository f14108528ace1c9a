"""`python -m geoalign`: the command line."""

from geoalign.lab.cli import main

if __name__ == "__main__":
    main()
