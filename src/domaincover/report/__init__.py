"""Tables, figures and pages from tidy tables of results, including those of other programs."""
