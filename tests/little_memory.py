"""Run by torchrun: a command line where nothing fits the memory but what is there already."""

import sys

from graphconv.commands import cli
from graphconv.engine import memory_estimate

if __name__ == "__main__":
    memory_estimate._SMALL = 0
    memory_estimate.available_memory = lambda: 1 << 20
    sys.exit(cli._run())
