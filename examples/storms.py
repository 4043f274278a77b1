"""What will the storm be tomorrow: a hurricane, a tropical storm, or something weaker?

Atlantic storms since 1979, every six hours, from NOAA's records. What is known now (wind, pressure, place, kind, and
how these changed in twelve hours) is to tell the kind 24 hours later. The domains are years: a model learns on 33
seasons and meets eleven more.

One label (ERM) finds less than two of three tropical storms: they may still grow or fade, and the model takes a side.
The sets of SET-COVER keep nine of ten hurricanes, storms and weaker ones in ten of the eleven new seasons, with less
than two labels of three; about four sets in ten hold one label only:

               Median min        10th   Worst  Median set      Domains at  By chance
    Method         recall  percentile  domain        size          target      alone
    SET-COVER       0.939       0.907   0.876        1.76  10 of 11, 91 %       96 %
    ERM             0.628       0.574   0.487        1.00    0 of 11, 0 %        0 %

With --seed 1 to 4 the target is reached in 7 to 11 of the eleven seasons, with 1.7 to 2.2 labels. Records of one storm
are alike, so a season tells less than its number of rows.
"""

from showing import Table, main

from domaincover import SetCoverClassifier, assess, read_example


def load() -> Table:
    """Return the state of every storm every six hours, its kind a day later, and the year."""
    return Table(*read_example("storms"))


def judge(table: Table, seed: int = 0):
    """Hold out a quarter of the years; a kind counts in a year that has 20 records of it or more."""
    return assess(SetCoverClassifier(random_state=seed), *table, min_cell_size=20, random_state=seed)


if __name__ == "__main__":
    main("What will the storm be tomorrow? Domains: years", load, judge, ["wind", "wind_change", "pressure", "lat"])
