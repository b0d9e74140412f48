"""How probably more seeds decide claims: `python -m papers.experiments.claim_power PAPER STUDY SEEDS ...`.

Means and covariance of the measured differences are taken as the true ones. Studies with so many seeds are drawn from
the normal distribution, and marked by the rule of the claims.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from papers.experiments.claims import read_paper
from papers.experiments.marks import DECIDED, Claim, adjusted_p_values, mark_claim

DRAWS = 150


def claims_of_study(claims: Sequence[Claim], study: str) -> list[Claim]:
    """Return the claims that measured differences of a study test, with these differences alone."""
    parts = [
        (claim, tuple(part for part in claim.comparisons if part.family == study and part.differences))
        for claim in claims
    ]
    return [replace(claim, comparisons=comparisons) for claim, comparisons in parts if comparisons]


def decision_shares(
    claims: Sequence[Claim], seeds: int, *, corrects_small: bool = False, draws: int = DRAWS
) -> list[float]:
    """Return the share of drawn studies that decide each claim.

    Args:
        claims: Claims whose comparisons have as many differences, at least two each.
        seeds: Number of seeds of a drawn study.
        corrects_small: As in `Paper`.
        draws: Number of drawn studies.
    """
    measured = np.array([part.differences for claim in claims for part in claim.comparisons])
    mean, covariance = measured.mean(axis=1), np.atleast_2d(np.cov(measured))
    random, decided = np.random.default_rng(0), np.zeros(len(claims))
    for _ in range(draws):
        drawn = iter(random.multivariate_normal(mean, covariance, size=seeds).T)
        studies = [
            replace(
                claim, comparisons=tuple(replace(part, differences=tuple(next(drawn))) for part in claim.comparisons)
            )
            for claim in claims
        ]
        adjusted = adjusted_p_values(studies, with_small=corrects_small)
        decided += [mark_claim(claim, adjusted) in DECIDED for claim in studies]
    return [float(share) for share in decided / draws]


def main() -> None:
    """Print the shares of each claim."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("paper", help="name of a file of papers/claims")
    parser.add_argument("study", help="study of bench/results that the claims name")
    parser.add_argument("seeds", nargs="+", type=int)
    options = parser.parse_args()
    paper = read_paper(options.paper)
    claims = claims_of_study((*paper.claims, *paper.shared), options.study)
    if not claims:
        parser.error(f"no claim of {options.paper} has measured differences of the study {options.study}")
    shares = [decision_shares(claims, seeds, corrects_small=paper.corrects_small) for seeds in options.seeds]
    for position, claim in enumerate(claims):
        print(*(f"{share[position]:.2f}" for share in shares), claim.text)


if __name__ == "__main__":
    main()
