"""The command line: `domaincover`."""

try:
    from domaincover.cli.app import app, main
except KeyboardInterrupt:  # before there is a command that could be stopped
    raise SystemExit(130) from None

__all__ = ["app", "main"]
