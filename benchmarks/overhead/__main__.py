from benchmarks.overhead.command import main

main()
