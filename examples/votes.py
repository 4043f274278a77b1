"""Who voted for Trump in 2016? Age, education, religion, party and views of 45,000 voters.

The answers are from the Cooperative Congressional Election Study. The domains are the 50 states and Washington, D.C.:
a model learns on 38 of them and meets 13 more.

One label per voter (ERM) is right in nine cases out of ten, in new states as in old ones, but where one camp is small
it is missed more often: one of five Trump voters in New York. The sets of SET-COVER hold both camps above 90 % in
more states; the price is that one or two voters in ten get both labels:

    Method     Median min recall  Worst domain  Median set size  Domains at target
    SET-COVER       0.89 to 0.94  0.75 to 0.91     1.09 to 1.21  5 to 13 of 13
    ERM             0.83 to 0.87  0.64 to 0.80             1.00  0 to 1 of 13

The ranges are over --seed 0 to 4, which hold out other states, and over three instruction sets of one processor, which
round differently (docs/determinism.md). --seed 0 is a kind draw of states, with all 13 at target; the worst state of the
others is Utah, with 0.75, where one label has 0.65.
"""

from showing import Table, main

from domaincover import SetCoverClassifier, assess
from domaincover.datasets import load_votes


def load() -> Table:
    """Return the answers, vote and state of everyone who told their vote."""
    return Table(*load_votes())


def judge(table: Table, seed: int = 0):
    """Hold out a quarter of the states; a vote counts in a state where 20 people or more gave it."""
    return assess(SetCoverClassifier(random_state=seed), *table, random_state=seed)


if __name__ == "__main__":
    main("Who voted for Trump in 2016? Domains: states", load, judge, ["age", "racef", "pid7na", "ideo"])
