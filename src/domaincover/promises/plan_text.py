"""A plan as text: the aim, and the number of domains that each route needs."""

from __future__ import annotations

from typing import TYPE_CHECKING

from domaincover.promises.certificate_text import percent, probability
from domaincover.promises.plans import certainty
from domaincover.terminal.text_lines import wrapped

if TYPE_CHECKING:
    from domaincover.promises.plans import DomainPlan, WithDomains

INDENT = 14
ASKED = "--domain-confidence"


def plan_text(plan: DomainPlan, width: int = 100) -> str:
    """Return the routes, the one with fewest domains first, and what the available domains allow."""
    parts = [_aim(plan, width), _calibration(plan, width), _certificate(plan, width), _theorems(plan, width)]
    if plan.with_domains is not None:
        parts.append(_allowed(plan, plan.with_domains, width))
    return "\n\n".join("\n".join(lines) for lines in parts)


def _aim(plan: DomainPlan, width: int) -> list[str]:
    aim = (
        f"The aim: at most {percent(plan.epsilon)} of new domains miss the target. At target means that every label is "
        f"caught at least {percent(plan.target_recall)} of the time. The promise may fail, by an unlucky draw of the "
        f"domains at hand, with a probability of at most {percent(plan.delta)}."
    )
    what = "Domains are counted as new ones will come: years of one hospital are one domain where hospitals are new."
    return wrapped(f"{aim} {what}", width)


def _calibration(plan: DomainPlan, width: int) -> list[str]:
    few, first = plan.n_domains_marginal, plan.calibration[0]
    on_average, certain = 1 - plan.epsilon, percent(1 - plan.delta)
    average = f"domains if it is enough that the promise holds on average over draws ({ASKED} {on_average:g})"
    by_size = " and ".join(
        f"{100 * certainty(m, plan.epsilon):.0f} % with {m:,} domains" for m in (few, first.n_domains)
    )
    unsure = (
        f"   With {ASKED} {on_average:g} more of them are passed over, as many as the average allows: the certainty is "
        f"{by_size}."
    )
    return [
        *_head("1. Calibrate on domains kept out of training. Any model, any number of features.", width),
        *_row(few, average, width),
        *_row(first.n_domains, f"domains and {ASKED} {first.domain_confidence:g} for {certain} certainty", width),
        *_head(unsure, width),
        *_head("   With more domains, the lowest thresholds can be passed over, so that sets get smaller:", width),
        f"{'domains':>{INDENT - 2}}  {'passed over':>11}  {'confidence':>10}  {'at target, on average':>21}",
        *(
            f"{size.n_domains:>{INDENT - 2},}  {size.n_spared:>11}  {size.domain_confidence:>10g}  "
            f"{percent(size.mean_confidence):>21}"
            for size in plan.calibration
        ),
    ]


def _certificate(plan: DomainPlan, width: int) -> list[str]:
    first, *others = plan.calibration
    more = ", ".join(f"{size.n_spared} of {size.n_domains:,}" for size in others)
    return [
        *_head("2. Show it afterwards, by a certificate from other domains that the model has not seen.", width),
        *_row(first.n_domains, f"domains if none of them misses the target; or {more} may miss", width),
        *_row(
            plan.n_examples_to_show,
            "examples of each label in each of them, at least: fewer cannot show a true recall of "
            f"{percent(plan.target_recall)}, even if all are caught",
            width,
        ),
    ]


def _theorems(plan: DomainPlan, width: int) -> list[str]:
    if plan.no_failure is None or plan.uniform is None:
        return _head(
            "3. Keep no domain out, and rely on theorems: how many domains they take depends on the scorers; give the "
            "number of features, for linear ones, or a VC dimension.",
            width,
        )
    labels = "1 label" if plan.n_labels == 1 else f"{plan.n_labels:,} labels"
    scorers = f"scorers of VC dimension {plan.vc_dimension:,}"
    if plan.n_features is not None:
        scorers = f"linear scorers of {plan.n_features:,} features, conditionally Gaussian domains"
    none, every = plan.no_failure, plan.uniform
    counted = (
        f"domains with {none.n_examples_per_cell:,} examples of each label in each, where recall is counted; the "
        f"promise is then about a recall of {percent(plan.target_recall - plan.recall_slack)}"
    )
    return [
        *_head(f"3. Keep no domain out, and rely on theorems. {labels}, {scorers}.", width),
        *_row(none.n_domains, "training domains if none of them misses the target, recall known exactly", width),
        *(_row(none.n_domains_finite, counted, width) if plan.recall_slack < plan.target_recall else []),
        *_row(
            every.n_domains,
            "training domains so that the share of new domains that miss is within "
            f"{percent(plan.epsilon)} of their share in training, for all scorers at once",
            width,
        ),
        *_head(
            "   These hold for the worst of all such scorers and domains. Routes 1 and 2 look at the one model at "
            "hand, and need far fewer.",
            width,
        ),
    ]


def _allowed(plan: DomainPlan, allowed: WithDomains, width: int) -> list[str]:
    bounds = {"where none misses": allowed.epsilon_no_failure, "for all scorers": allowed.epsilon_uniform}
    theorems = "; ".join(
        f"{name}, " + ("nothing (their ε is above 1)" if epsilon is None else f"ε = {percent(epsilon)}")
        for name, epsilon in bounds.items()
    )
    certain = (
        f"of new domains at target is the most that it can promise with {percent(1 - plan.delta)} certainty "
        f"({ASKED} {allowed.domain_confidence:g}), and what a certificate shows if none of them misses"
    )
    average = "of new domains at target is the most that calibration on them can promise on average"
    by_theorems = f"   The theorems promise, from as many training domains: {theorems}."
    return [
        f"With {allowed.n_domains:,} domain{'' if allowed.n_domains == 1 else 's'}:",
        *_row(probability(allowed.marginal_confidence), average, width),
        *_row(probability(allowed.conditional_confidence), certain, width),
        *(_head(by_theorems, width) if plan.vc_dimension is not None else []),
    ]


def _row(number: int | str, words: str, width: int) -> list[str]:
    """Return a number and its description in two columns."""
    first = f"{number:>{INDENT - 2},}" if isinstance(number, int) else f"{number:>{INDENT - 2}}"
    return wrapped(words, width, f"{first}  ", " " * INDENT)


def _head(words: str, width: int) -> list[str]:
    return wrapped(words, width, then="   ")
