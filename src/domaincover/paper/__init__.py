"""The paper's experiments: studies, WILDS, theory, and their pages. Only the command line imports this package."""
