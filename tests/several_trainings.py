"""Run by torchrun: several command lines one after the other, in the same processes.

Starting processes takes longer than training them, so tests share one start.
"""

import json
import sys

from graphconv.commands import cli

if __name__ == "__main__":
    for arguments in json.loads(sys.argv[1]):
        sys.argv = ["graphconv", *arguments]
        code = cli._run()
        if code:
            sys.exit(code)
