"""Four WILDS data sets (Koh et al., 2021), read from their released folders."""
