"""`python -m graphconv` is the command line."""

from graphconv.cli import main

main()
