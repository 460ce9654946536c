"""Command errors: whatever goes wrong in a command becomes one line on stderr and an exit code."""

from __future__ import annotations

import errno
import sys
from contextlib import suppress

import typer
import typer.exceptions

from graphconv.commands.console import TrainingStoppedError
from graphconv.commands.option_names import as_options
from graphconv.commands.terminal import for_terminal
from graphconv.io.wording import one_line, printable
from graphconv.storage.memory import address_limit, in_units

# Addresses that loading torch takes; where it gets fewer, it ends the process.
_ADDRESSES_TO_LOAD = 1_000_000_000


def exit_code(app: typer.Typer) -> int:
    """Run the command that the arguments name: 0 if it went well, 2 on an error, 130 on Ctrl-C."""
    if address_limit() < _ADDRESSES_TO_LOAD:
        allowed, needed = in_units(address_limit()), in_units(_ADDRESSES_TO_LOAD)
        return _fail(f"a process may have {allowed} of addresses here (ulimit -v), {needed} needed")
    try:
        code = app(prog_name="graphconv", standalone_mode=False)
    except typer.exceptions.TyperException as error:
        return _usage_error(error)
    except KeyboardInterrupt:  # outside what typer looks after
        code = 130
    except TrainingStoppedError as stop:
        print(f"graphconv: interrupted; {printable(str(stop))}", file=sys.stderr)
        return 130
    except OSError as error:
        return _fail(_os_error(error))
    except ImportError as error:  # its files are damaged, or there are too few addresses for them
        return _fail(f"a library can't be loaded: {error}")
    except (ValueError, TypeError) as error:
        return _fail(as_options(error.args[0]) if error.args else type(error).__name__)
    except (MemoryError, RuntimeError) as error:
        if isinstance(error, RuntimeError) and "allocate memory" not in str(error):
            raise
        return _fail("this needs more memory than there is")
    if code == 130:
        print("graphconv: interrupted", file=sys.stderr)
    return code if isinstance(code, int) else 0


def _usage_error(error: typer.exceptions.TyperException) -> int:
    """One line; but who gives no command at all gets the help."""
    if len(sys.argv) < 2:
        print(error.format_message(), file=sys.stderr)
        return 2
    message = error.format_message()
    # Typer's own messages are sentences; ours go on after "graphconv: ".
    return _fail(message[:1].lower() + message[1:].rstrip("."))


def _os_error(error: OSError) -> str:
    if error.errno is None:
        return as_options(error.args[0]) if error.args else type(error).__name__
    reason = error.strerror or "can't be used"
    if error.errno == errno.ENOSPC:
        reason = "the disk is full"
    return reason if error.filename is None else f"{error.filename}: {reason}"


def _fail(text: str) -> int:
    with suppress(OSError):  # stderr itself may be what is full
        print(for_terminal(f"graphconv: {printable(one_line(text))}", sys.stderr), file=sys.stderr)
    return 2
