"""The commands on studies: paper, run, results, report, figures, data check."""
