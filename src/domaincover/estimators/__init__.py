"""What a user calls: fit, predict_set, domain_report."""
