"""The command line. Heavy modules are imported where a command needs them: `mqlab list` stays fast."""

from mqlab.cli.program import cli, main

__all__ = ["cli", "main"]
