"""`python -m geoalign`: the command line."""

from geoalign.cli import main

if __name__ == "__main__":
    main()
