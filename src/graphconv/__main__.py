"""`python -m graphconv` and `graphconv` are the command line."""

import sys


def main() -> None:
    """Run a command; Ctrl-C ends it with one line, also while its modules are read."""
    try:
        from graphconv.commands.cli import main as run

        run()
    except KeyboardInterrupt:
        print("graphconv: interrupted", file=sys.stderr)
        sys.exit(130)


if __name__ == "__main__":
    main()
