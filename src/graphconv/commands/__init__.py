"""The command line: options, what each command does, what it prints."""
