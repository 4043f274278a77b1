"""Six real data sets with natural domains, read as they are released or from the packages that carry them."""
