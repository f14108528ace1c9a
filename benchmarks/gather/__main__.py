from benchmarks.gather.command import main

main()
