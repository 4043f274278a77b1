"""From tidy tables of results to tables, figures and a page; takes anybody's results, not only ours."""
