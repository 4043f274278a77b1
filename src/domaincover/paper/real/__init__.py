"""Readers of real data sets as they are released, or from the packages that carry them."""
