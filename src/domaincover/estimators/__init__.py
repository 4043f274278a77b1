"""Estimators with scikit-learn's interface: fit, predict_set, domain_report."""
