"""What a table allows before anything is fitted to it: leaks, small cells, missing values, promises within reach."""
