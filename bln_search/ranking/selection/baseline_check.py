"""Networks that have learned nothing: ranked like others, with a word about it."""

from __future__ import annotations

from bln_search.core.class_prior import Guess
from bln_search.core.enums import Split
from bln_search.ranking.leaderboard import Leaderboard, LeaderboardRow
from bln_search.ranking.stored_model import Kept


class Doubt(Kept):
    """Arms of which no row has less loss than always answering with the shares of the classes.

    every: there are no others. loss (nats), accuracy (fraction): of the one of their rows that has least loss on
    `split`, means over seeds. guess: what that answer reaches there.
    """

    arms: tuple[str, ...]
    every: bool
    split: Split
    loss: float
    accuracy: float
    guess: Guess

    @property
    def words(self) -> str:
        """In a sentence, and a question."""
        which = "No row" if self.every else f"No row of {' or '.join(self.arms)}"
        return (
            f"{which} does better than guessing: the least {self.split} loss is {self.loss:.4f} (accuracy "
            f"{self.accuracy:.1%}), that of always answering with the shares of the classes {self.guess.loss:.4f} "
            f"({self.guess.accuracy:.1%}). Was anything learned?"
        )


def doubt_of(board: Leaderboard, guess: Guess | None) -> Doubt | None:
    """About the ranked rows; None where every arm has a row that does better, or nobody knows what guessing reaches."""
    if guess is None:
        return None
    split = board.ranked_on
    best: dict[str, LeaderboardRow] = {}
    for row in board.rows:  # those of least loss come first
        if row.rank is not None:
            best.setdefault(row.arm, row)
    doubtful = [row for row in best.values() if row.figures[split].loss.mean >= guess.loss]
    if not doubtful:
        return None
    first = doubtful[0].figures[split]
    return Doubt(
        arms=tuple(row.arm for row in doubtful),
        every=len(doubtful) == len(best),
        split=split,
        loss=first.loss.mean,
        accuracy=first.accuracy.mean,
        guess=guess,
    )
