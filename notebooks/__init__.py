"""Three stories on real data, with what they print and draw; `python -m notebooks` runs them anew."""
