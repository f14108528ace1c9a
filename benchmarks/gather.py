"""How long the states of a batch take from many nodes to the one that curates, simulated here (docs/scaling.md).

python benchmarks/gather.py --shape 96x16x2048 --processes 2 8 16 64 --megabits 100
"""

from geoalign.benchmarks.gather.command import main

if __name__ == "__main__":
    main()
