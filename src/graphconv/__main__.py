"""`python -m graphconv` is the command line."""

from graphconv.commands.cli import main

main()
