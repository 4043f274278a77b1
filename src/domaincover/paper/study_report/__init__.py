"""Tables, figures and the page of a study, from two tidy tables of results."""
