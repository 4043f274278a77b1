"""`python -m domaincover` is the command line."""

from domaincover.cli import main

main()
