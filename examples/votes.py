"""Who voted for Trump in 2016? Age, education, religion, party and views of 45,000 voters.

The answers are from the Cooperative Congressional Election Study. The domains are the 50 states and Washington, D.C.:
a model learns on 38 of them and meets 13 more.

One label per voter (ERM) is right in nine cases out of ten, in new states as in old ones, but where one camp is small
it is missed more often: one of five Trump voters in New York. The sets of SET-COVER hold both camps above 90 % in
these states; the price is that one voter in five gets both labels:

               Median min        10th   Worst  Median set       Domains at  By chance
    Method         recall  percentile  domain        size           target      alone
    SET-COVER       0.944       0.929   0.907        1.21  13 of 13, 100 %       99 %
    ERM             0.868       0.831   0.798        1.00     1 of 13, 8 %        4 %

This is a kind draw of states. With --seed 1 to 4 the sets are smaller and reach the target in 5 to 10 of the 13; the
worst, Utah, has 0.75, where one label has 0.65.
"""

from showing import Table, main

from domaincover import SetCoverClassifier, assess, read_example


def load() -> Table:
    """Return the answers, vote and state of everyone who told their vote."""
    return Table(*read_example("votes"))


def judge(table: Table, seed: int = 0):
    """Hold out a quarter of the states; a vote counts in a state where 20 people or more gave it."""
    return assess(SetCoverClassifier(random_state=seed), *table, min_cell_size=20, random_state=seed)


if __name__ == "__main__":
    main("Who voted for Trump in 2016? Domains: states", load, judge, ["age", "racef", "pid7na", "ideo"])
