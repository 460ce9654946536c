"""Option names: the parameters that a message of the library names, spelled as options."""

from __future__ import annotations

from graphconv.io.wording import Message

_QUOTES = "'\""
# What is not called --parameter-name.
OPTION_OF = {
    "ensemble": "--runs",
    "n_splits": "--splits",
    "n_workers": "--workers",
    "random_state": "--seed",
}


def as_options(text: object) -> str:
    """A message in the words of the command line; any other text as it is.

    Examples
    --------
    >>> from graphconv.commands.option_names import as_options
    >>> from graphconv.io.wording import naming
    >>> as_options(naming("{max_epochs} must be above 0 ({missing_value:'mean'})"))
    '--max-epochs must be above 0 (--missing-value mean)'
    """
    return text.spelled(spell_option) if isinstance(text, Message) else str(text)


def spell_option(parameter: str, value: str = "") -> str:
    """The option of a parameter, with the value to give it."""
    option = OPTION_OF.get(parameter, f"--{parameter.replace('_', '-')}")
    if value in ("True", "False"):
        return option if value == "True" else option.replace("--", "--no-", 1)
    return f"{option} {value.strip(_QUOTES)}" if value else option
