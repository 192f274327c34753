"""The older name of `python -m benchmarks perf`."""

import sys

from benchmarks.perf import main

if __name__ == "__main__":
    main(sys.argv[1:])
