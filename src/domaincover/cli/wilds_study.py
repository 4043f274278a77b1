"""Commands for the paper's experiments on WILDS folders: paper camelyon17, fmow, iwildcam, amazon."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, NamedTuple

import typer

from domaincover.cli import completion
from domaincover.cli.outputs import say
from domaincover.cli.study import (
    METHODS_HELP,
    PENALTY_HELP,
    carry_out,
    check_counts,
    chosen_methods,
    leave_if_failed,
    n_cores,
    numbers,
    paper,
)
from domaincover.paper.wilds.hyperparameters import EPOCHS, HIDDEN_UNITS, PAPER

if TYPE_CHECKING:
    from domaincover.paper.wilds.source import Means, WildsSource

Data = Annotated[Path, typer.Option("--data", help="The released folder, or the one that holds it.")]
Out = Annotated[Path, typer.Option(help="Directory of the study; finished runs in it are kept.")]
Network = Annotated[
    str | None, typer.Option(help="A folder that save_pretrained wrote, or with --download a hub name.")
]
Weights = Annotated[Path | None, typer.Option(help="A file of torchvision's weights for ResNet-18.")]
Learn = Annotated[
    Literal["auto", "head", "all"],
    typer.Option(help="Train the whole network, or a head on its features; auto: a head if no GPU is found."),
]
Methods = Annotated[str, typer.Option(help=METHODS_HELP, autocompletion=completion.with_commas(completion.methods))]
PenaltyWeight = Annotated[float | None, typer.Option(help=PENALTY_HELP)]
Confidence = Annotated[
    float | None, typer.Option(help="Promise this about a new domain by erm-joint and set-cover-joint; adds them.")
]
Seeds = Annotated[int, typer.Option(help="How many seeds: 0, 1, …")]
Targets = Annotated[str, typer.Option(help="Target recalls, with commas.")]
Epochs = Annotated[int, typer.Option(help="Epochs of training.")]
BatchSize = Annotated[int, typer.Option(help="Examples in a batch.")]
LearningRate = Annotated[float, typer.Option(help="Adam's learning rate.")]
UpdateEvery = Annotated[int, typer.Option(help="Batches between two moves of the multipliers within an epoch.")]
RecallFrom = Annotated[
    Literal["batches", "full-pass"],
    typer.Option(help="Whence multipliers know recall: the training batches, or a pass over all data (the paper)."),
]
TrainDomains = Annotated[int, typer.Option(help="Domains to train on.")]
UnseenDomains = Annotated[int, typer.Option(help="Domains that stay unseen.")]
MaxTrainRows = Annotated[int, typer.Option(help="Most training examples of a domain.")]
MaxTestRows = Annotated[int, typer.Option(help="Most test examples of a domain.")]
MinCellSize = Annotated[int, typer.Option(help="A label with fewer examples in a domain is dropped there.")]
Jobs = Annotated[
    int | None, typer.Option(help="Processes; one for whole networks, else as many as cores, if not given.")
]
Workers = Annotated[int | None, typer.Option(help="Processes that decode images ahead, for each job.")]
Cache = Annotated[Path | None, typer.Option(help="Folder for features; the user's cache if not given.")]
Download = Annotated[bool, typer.Option("--download", help="Permit to fetch --network from the Hugging Face hub.")]
Device = Annotated[
    str,
    typer.Option(
        help="auto (a GPU if there is one), cpu, cuda, …", autocompletion=completion.one_of(completion.devices)
    ),
]
ImageSize = Annotated[int | None, typer.Option(help="Images are resized to so many pixels squared.")]
MaxUnreadable = Annotated[float, typer.Option(help="Share of images that may be unreadable; they are left out.")]

RANDOM_START = "ResNet-18 starts from random weights; the paper starts from ImageNet's: give --weights."
IMAGES_OF = {
    "camelyon17": "patches of tissue, tumour or not; domains are patients",
    "fmow": "satellite images of three land uses; domains are regions and years",
    "iwildcam": "camera traps, nothing or one of two animals; domains are cameras",
}


def _add_image_command(name: str) -> None:
    setting = PAPER[name]

    def command(
        data: Data,
        out: Out,
        network: Network = None,
        weights: Weights = None,
        learn: Learn = "auto",
        image_size: ImageSize = setting.image_size,
        methods: Methods = "",
        penalty_weight: PenaltyWeight = None,
        domain_confidence: Confidence = None,
        seeds: Seeds = 5,
        target_recall: Targets = "0.9",
        epochs: Epochs = EPOCHS,
        batch_size: BatchSize = setting.batch_size,
        learning_rate: LearningRate = 1e-3,
        update_every: UpdateEvery = 500,
        recall_from: RecallFrom = "batches",
        train_domains: TrainDomains = setting.n_train_domains,
        unseen_domains: UnseenDomains = setting.n_unseen_domains,
        max_train_rows: MaxTrainRows = setting.max_train_rows,
        max_test_rows: MaxTestRows = setting.max_test_rows,
        min_cell_size: MinCellSize = 101,
        max_unreadable: MaxUnreadable = 0.01,
        jobs: Jobs = None,
        workers: Workers = None,
        cache: Cache = None,
        download: Download = False,
        device: Device = "auto",
    ) -> None:
        from domaincover.estimators.image_network import ImageNetwork
        from domaincover.paper.wilds.source import wilds_source

        check_counts(seeds, jobs)
        chosen = ImageNetwork(model=network or "resnet-18", weights=weights, learn=learn)
        whole = chosen.learns(device) == "all"
        n_jobs = jobs or (1 if whole else n_cores())
        source = wilds_source(
            name,
            data,
            model=network,
            weights=weights,
            learn=learn,
            image_size=image_size,
            n_train_domains=train_domains,
            n_unseen_domains=unseen_domains,
            max_train_rows=max_train_rows,
            max_test_rows=max_test_rows,
            means=_means(device, workers, cache, download, n_jobs, max_unreadable),
        )
        trained = Trained(epochs, batch_size, learning_rate, update_every, recall_from, min_cell_size)
        settings = _settings(methods, penalty_weight, domain_confidence, seeds, target_recall, trained)
        notes = [chosen.in_words(device), *([] if chosen.is_pretrained else [RANDOM_START])]
        _carry_out(source, settings, out, n_jobs, notes)

    command.__doc__ = f"""Compare the paper's methods on {name}: {IMAGES_OF[name]}.

    Example: domaincover paper {name} --data wilds --weights resnet18.pth --seeds 1 --out runs/{name}
    """
    paper.command(name)(command)


for _name in IMAGES_OF:
    _add_image_command(_name)


@paper.command("amazon")
def paper_amazon(
    data: Data,
    out: Out,
    network: Network = None,
    features: Annotated[
        Literal["word-embeddings", "encoder"],
        typer.Option(help="Mean word embeddings (the paper), or the mean of the encoder's last states."),
    ] = "word-embeddings",
    max_tokens: Annotated[int | None, typer.Option(help="Where texts are cut; the model's limit if not given.")] = None,
    learn: Annotated[
        Literal["auto", "head", "all"],
        typer.Option(help="Train the whole network, or a perceptron on its features; auto is the latter."),
    ] = "auto",
    methods: Methods = "",
    penalty_weight: PenaltyWeight = None,
    domain_confidence: Confidence = None,
    seeds: Seeds = 5,
    target_recall: Targets = "0.9",
    epochs: Epochs = EPOCHS,
    batch_size: BatchSize = PAPER["amazon"].batch_size,
    learning_rate: LearningRate = 1e-3,
    update_every: UpdateEvery = 500,
    recall_from: RecallFrom = "batches",
    train_domains: TrainDomains = PAPER["amazon"].n_train_domains,
    unseen_domains: UnseenDomains = PAPER["amazon"].n_unseen_domains,
    max_train_rows: MaxTrainRows = PAPER["amazon"].max_train_rows,
    max_test_rows: MaxTestRows = PAPER["amazon"].max_test_rows,
    min_cell_size: MinCellSize = 101,
    jobs: Jobs = None,
    cache: Cache = None,
    download: Download = False,
    device: Device = "auto",
) -> None:
    """Compare the paper's methods on amazon: reviews and their stars; domains are reviewers.

    Example: domaincover paper amazon --data wilds --network models/bert-base-uncased --seeds 1 --out runs/amazon
    """
    from domaincover.paper.wilds.source import wilds_source

    check_counts(seeds, jobs)
    n_jobs = jobs or (1 if learn == "all" else n_cores())
    source = wilds_source(
        "amazon",
        data,
        model=network,
        learn=learn,
        features=features,
        max_tokens=max_tokens,
        n_train_domains=train_domains,
        n_unseen_domains=unseen_domains,
        max_train_rows=max_train_rows,
        max_test_rows=max_test_rows,
        means=_means(device, None, cache, download, n_jobs),
    )
    trained = Trained(epochs, batch_size, learning_rate, update_every, recall_from, min_cell_size)
    settings = _settings(methods, penalty_weight, domain_confidence, seeds, target_recall, trained)
    whole = f"The whole network is trained, on {source.device}."
    head = f"{network} stays as it is; a perceptron with {HIDDEN_UNITS} hidden units is trained on its {features}."
    _carry_out(source, settings, out, n_jobs, [whole if learn == "all" else head])


def _means(
    device: str, workers: int | None, cache: Path | None, download: bool, n_jobs: int, max_unreadable: float = 0.01
) -> Means:
    """Share the cores among jobs, where nothing else is asked for."""
    from domaincover.paper.wilds.source import Means

    share = max(1, n_cores() // n_jobs)
    return Means(
        device=device,
        workers=min(4, share) if workers is None else workers,
        cache="auto" if cache is None else str(cache.absolute()),
        download=download,
        max_unreadable=max_unreadable,
        threads=share if n_jobs > 1 else None,
    )


class Trained(NamedTuple):
    """How networks of a study are trained, and which cells count: by the names that a study has for them."""

    epochs: int
    batch_size: int
    learning_rate: float
    update_every: int
    recall_from: str
    min_cell_size: int


def _settings(
    methods: str,
    penalty_weight: float | None,
    domain_confidence: float | None,
    seeds: int,
    target_recall: str,
    trained: Trained,
) -> dict[str, Any]:
    return trained._asdict() | {
        "methods": chosen_methods(methods, domain_confidence),
        "penalty_weight": penalty_weight,
        "domain_confidence": 0.9 if domain_confidence is None else domain_confidence,
        "target_recalls": tuple(numbers(target_recall, "--target-recall", float)),
        "seeds": tuple(range(seeds)),
    }


def _carry_out(source: WildsSource, settings: dict[str, Any], out: Path, n_jobs: int, notes: list[str]) -> None:
    from domaincover.paper import runner
    from domaincover.paper.study import Study

    study = Study(datasets=(source.name,), sources=(source,), **settings)
    source.check(settings["min_cell_size"])  # a fault is to be the only line
    for note in notes:
        say(note)
    leave_if_failed(carry_out([study], out, runner.Workers(n_jobs)))
