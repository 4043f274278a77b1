"""Fitted models that predict, evaluate and adapt: what estimators share with the command line, without scikit-learn."""
