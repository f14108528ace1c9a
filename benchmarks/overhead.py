"""What GeoAlign adds to a training step of Qwen3-1.7B or 4B on this machine (docs/performance.md).

python benchmarks/overhead.py --architecture qwen3-1.7b --json overhead.json
"""

from geoalign.benchmarks.overhead.command import main

if __name__ == "__main__":
    main()
