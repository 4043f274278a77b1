"""What the commands read: tables to fit on, and new ones as a model wants them; rows are numbered from 1."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from domaincover.errors import InputError
from domaincover.terminal.text import listed

if TYPE_CHECKING:
    import pandas as pd

    from domaincover.data.tables import Table
    from domaincover.predictors.set_predictor import SetPredictor

MOST_LABELS = 200
MOST_NAMES = 12
PLAIN_NUMBER = "plain number"
KINDS = {
    "number": "numbers",
    "boolean": "booleans",
    "date": "dates",
    "category": "categories",
    "ignored": "ignored, since almost every row has another text",
}


class LabelledTable(NamedTuple):
    """Features, labels and domains, row by row."""

    X: Any  # a pandas table, or a DiskTable
    labels: pd.Series[Any]
    domains: pd.Series[Any]

    @property
    def n_domains(self) -> int:
        """How many domains there are."""
        return self.domains.nunique()


def check_roles(data: Table, label: str, domain: str) -> None:
    """Refuse names of label and domain that are not two columns of the table."""
    data.check_column(label, "--label")
    data.check_column(domain, "--domain")
    if label == domain:
        raise InputError(f"--label and --domain are both {label!r}; they must be two columns.")


def feature_columns(data: Table, label: str, domain: str, drop: Sequence[str]) -> list[str]:
    """Return the columns to learn from: all but the label, the domain and what is left out."""
    check_roles(data, label, domain)
    for name in drop:
        data.check_column(name, "--drop")
        if name in (label, domain):
            role = "labels (--label)" if name == label else "domains (--domain)"
            raise InputError(f"--drop {name!r} is the column of {role}, which a fit needs; leave out the option.")
    features = [name for name in data.columns if name not in {label, domain, *drop}]
    if not features:
        raise InputError(f"{data.path} has no columns left to learn from beside {label!r} and {domain!r}.")
    return features


def read_training(
    data: Table,
    features: Sequence[str],
    label: str,
    domain: str,
    min_domains: int,
    image_column: str | None = None,
    prose: str | None = None,
    *,
    may_lack_names: bool = False,
) -> LabelledTable:
    """Read a table to fit on, and refuse one whose label or domain is probably another column.

    Labels and domains become whole numbers or booleans if all names are. `may_lack_names` admits rows without them.
    """
    from domaincover.data.identity import canonical_texts, typed_names

    texts = [name for name in (image_column, prose) if name is not None]
    frame = _numbered(data.read([*features, label, domain], [label, domain], texts))
    labels, domains = (typed_names(canonical_texts(frame[role])) for role in (label, domain))
    for column, option in ((labels, "--label"), (domains, "--domain")):
        if not may_lack_names:
            _check_missing(column, option)
        elif column.isna().all():
            raise InputError(f"column {column.name!r} ({option}) is empty in all rows.")
    _check_classes(labels.dropna())
    _check_groups(domains.dropna(), min_domains)
    X = frame[list(features)]
    for name in texts:
        _check_missing(X[name], "--image-column" if name == image_column else "--text-column")
    return LabelledTable(_with_paths(X, data, [image_column]) if image_column else X, labels, domains)


def kinds_in_words(features: Any) -> list[str]:
    """Say what each column is taken for, a line for each kind; of a table on disk by some rows."""
    from domaincover.data.columns import column_kind, doubt_about, plain_table, spellings_of
    from domaincover.data.encoding import learned_rows
    from domaincover.data.tables import DiskTable

    if isinstance(features, DiskTable):
        features = learned_rows(features)
    spellings = spellings_of(features)
    features = plain_table(features, spellings)
    by_kind: dict[str, list[str]] = {}
    for name in features:
        by_kind.setdefault(column_kind(features[name]), []).append(str(name))
    if set(by_kind) == {"ignored"}:
        raise InputError("no column can be learned from: every text is different in almost every row.")
    doubts = [f"Note: column {name!r} {doubt}." for name in features if (doubt := doubt_about(features[name]))]
    return [
        *(f"{words}: {listed(by_kind[kind])}" for kind, words in KINDS.items() if kind in by_kind),
        *([f"written as: {listed([f'{name} {way}' for name, way in spellings.items()])}"] if spellings else []),
        *doubts[:MOST_NAMES],
    ]


def _with_paths(frame: pd.DataFrame, data: Table, columns: Sequence[str]) -> pd.DataFrame:
    """Return paths of images as seen from here: in a table they start from its folder."""
    return frame.assign(**{name: [str(data.base / str(path)) for path in frame[name]] for name in columns})


class ModelColumns(NamedTuple):
    """The columns that a model was fitted on, those that it makes use of, and what some of these hold."""

    names: list[str]
    used: list[str]
    categories: list[str]
    prose: list[str]  # paths of images among it
    images: list[str]
    plain_numbers: list[str]  # of a model without an encoder
    spellings: dict[str, str]  # of columns whose texts are read as numbers or dates

    @classmethod
    def of(cls, model: SetPredictor, data: Table) -> ModelColumns:
        """Return a model's columns, of which the table must have all that are used."""
        from domaincover.predictors.calibrated_predictors import input_encoder_of

        names = [str(name) for name in getattr(model, "feature_names_in_", ())]
        if not names:
            raise InputError("the model was fitted on an array without column names; use it from Python.")
        kinds = _kinds(model, names)
        used = [name for name in names if kinds[name] != "ignored"]
        for name in used:
            data.check_column(name, "the model was fitted with it")
        found = ("category", "text", "image", PLAIN_NUMBER)
        of_kind = {kind: [name for name in used if kinds[name] == kind] for kind in found}
        prose = [*of_kind["text"], *of_kind["image"]]
        spellings = dict(getattr(input_encoder_of(model), "spellings_", {}))
        return cls(names, used, of_kind["category"], prose, of_kind["image"], of_kind[PLAIN_NUMBER], spellings)

    def blocks(self, data: Table, ids: Collection[str] = ()) -> Iterator[tuple[pd.DataFrame, Any]]:
        """Read a table in blocks: what the model wants, and beside it columns to copy as they are.

        In CSV, where a block's types are its own, columns whose spelling was learned are text; other formats bring
        their types.
        """
        from domaincover.data import tables

        first = 1
        texts = {*self.categories, *(() if data.has_types else self.spellings)}
        for block, kept in data.blocks(tables.ROWS_AT_ONCE, self.used, texts, self.prose, list(ids)):
            self._check_decimals(block, data, first)
            yield self._arranged(block.set_axis(range(first, first + len(block))), data), kept
            first += len(block)

    def read_labels(self, data: Table, label: str, domain: str, classes: Sequence[Any]) -> LabelledTable:
        """Read labels that the model knows, and domains.

        The features, which take most of the memory, are left to `blocks`.
        """
        check_roles(data, label, domain)
        frame = _numbered(data.read([label, domain], [label, domain]))
        table = LabelledTable(frame[[]], frame[label], domain_names(frame[domain], frame.index))
        _check_missing(table.labels, "--label")
        return table._replace(labels=_known_labels(table.labels, classes))

    def read_some_labels(self, data: Table, label: str, classes: Sequence[Any]) -> pd.Series[Any]:
        """Read labels that the model knows, missing where they are not known."""
        return _known_labels(_numbered(data.read([label], [label]))[label], classes)

    def _check_decimals(self, block: pd.DataFrame, data: Table, first: int) -> None:
        """Reject 1,500 in a file with a decimal comma where the comma parted thousands when the model was fitted."""
        from domaincover.data.columns import NUMBERS

        for name, spelling in self.spellings.items() if data.decimal == "," else ():
            commas = block[name].astype("string").str.contains(",").to_numpy(dtype=bool, na_value=False)
            if NUMBERS.get(spelling, ("", ""))[1] == "." and commas.any():
                row = int(commas.argmax())
                raise InputError(
                    f"column {name!r} was written like {spelling} when the model was fitted, but {data.path} has a "
                    f"decimal comma, so that {block[name].iloc[row]!r} in row {first + row} can be read in two ways."
                )

    def _arranged(self, frame: pd.DataFrame, data: Table) -> pd.DataFrame:
        for name in self.prose:
            _check_missing(frame[name], "the model reads it")
        for name in self.plain_numbers:
            if frame[name].dtype.kind not in "biuf" and not frame[name].isna().all():
                raise InputError(
                    f"column {name!r} is not of numbers, and the model has no encoder; fit it with one: "
                    "make_pipeline(TableEncoder(), classifier)."
                )
        frame = frame.astype(dict.fromkeys(self.plain_numbers, float))
        if self.images:
            frame = _with_paths(frame, data, self.images)
        return frame.reindex(columns=self.names)  # a column that is ignored may be absent: it is then empty


def domain_names(column: pd.Series[Any], rows: Any) -> pd.Series[Any]:
    """Return the domains of some rows as text, numbered as in the table; reject missing ones."""
    from domaincover.data.identity import canonical_texts

    names = canonical_texts(column.set_axis(rows))
    _check_missing(names, "--domain")
    return names


def domains_in(data: Table, domain: str | None) -> list[str]:
    """Return the domains of a table in the order in which they are met; none without their column."""
    from domaincover.data.identity import canonical_texts

    if domain is None or domain not in data.columns:
        return []
    return canonical_texts(data.read([domain], [domain])[domain].dropna()).unique().tolist()


def _kinds(model: Any, names: Sequence[str]) -> dict[str, str]:
    """Return what a model takes its columns for: what its encoder does, or numbers for trees without one."""
    from domaincover.predictors.calibrated_predictors import input_encoder_of

    encoder = input_encoder_of(model)
    if hasattr(encoder, "kinds_"):
        return encoder.kinds_
    if getattr(encoder, "reads_numbers", False):
        return dict.fromkeys(names, PLAIN_NUMBER)
    raise InputError(
        "the model does not read tables by itself; use it from Python, or fit it with a TableEncoder before the "
        "classifier: make_pipeline(TableEncoder(), classifier)."
    )


def _numbered(frame: pd.DataFrame) -> pd.DataFrame:
    return frame.set_axis(range(1, len(frame) + 1))


def _check_missing(column: pd.Series[Any], option: str) -> None:
    missing = column.isna()
    if missing.any():
        raise InputError(
            f"column {column.name!r} ({option}) is empty in {int(missing.sum()):,} of {len(missing):,} rows, first in "
            f"row {missing.idxmax()}; drop those rows or give the missing value a name."
        )


def _check_classes(labels: pd.Series[Any]) -> None:
    import pandas as pd

    column, n_labels = f"column {labels.name!r} (--label)", labels.nunique()
    if n_labels < 2:
        raise InputError(f"{column} has one value only, {labels.tolist()[0]!r}; sets need two labels.")
    if n_labels > MOST_LABELS:
        raise InputError(
            f"{column} has {n_labels:,} different values; labels are classes, at most {MOST_LABELS}. "
            "Was another column meant, or --target for a number?"
        )
    numbers = pd.to_numeric(pd.Series(labels.unique().astype(str)), errors="coerce")
    if numbers.notna().all() and (broken := numbers % 1 != 0).any():
        raise InputError(
            f"{column} holds numbers such as {numbers[broken].iloc[0]:g}; labels are classes: whole numbers or "
            "names. For a number, give --target instead."
        )


def _check_groups(domains: pd.Series[Any], fewest: int) -> None:
    column, n_domains = f"column {domains.name!r} (--domain)", domains.nunique()
    if n_domains > len(domains) / 2:
        raise InputError(
            f"{column} has {n_domains:,} different values in {len(domains):,} rows; a domain is a group of many rows, "
            "such as a hospital or a user. Was another column meant?"
        )
    if n_domains < fewest:
        raise InputError(
            f"{column} has one value only, {domains.tolist()[0]!r}; an evaluation on unseen domains needs two or more. "
            "Give --hold-out-domains 0 to fit without one."
        )


def _known_labels(labels: pd.Series[Any], classes: Sequence[Any]) -> pd.Series[Any]:
    """Return texts as the labels of a model, as objects where some are missing; reject those that it does not know."""
    from domaincover.data.identity import in_words, look_alikes, name_by_text

    known = name_by_text(labels.dropna().unique().tolist(), classes)
    unknown = labels.notna() & ~labels.isin(list(known))
    if unknown.any():
        name = labels[unknown].tolist()[0]
        alike = look_alikes([name], classes)
        raise InputError(
            f"column {labels.name!r} (--label) holds {name!r} in row {unknown.idxmax()}, a label that the model does "
            f"not know; it knows {listed(list(map(repr, classes)))}{f'; {in_words(alike)}' if alike else ''}."
        )
    found = labels.astype(object).map(known)
    return found.astype(object).where(labels.notna(), None) if labels.isna().any() else found
