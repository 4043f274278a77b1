"""The command line: `domaincover`."""

from domaincover.cli.app import app, main

__all__ = ["app", "main"]
