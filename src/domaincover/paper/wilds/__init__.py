"""Four WILDS datasets (Koh et al., 2021), read from their released folders."""
