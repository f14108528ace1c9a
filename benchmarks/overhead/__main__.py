from benchmarks.overhead.command import main
from geoalign.lab.models.process_setup import use_one_device

use_one_device()  # TRL refuses a process that sees several
main()
