"""The seeds of a study: a list, or as many as a certain answer needs."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import Discriminator, Field, Tag

from bln_search.specs.spec_section import SpecSection

PLANNED_LOOKS = 3, 5, 10, 20
"""Numbers of seeds after which a study that adds seeds until it is decided is analysed."""

LISTED, UNTIL_DECIDED = "listed", "until_decided"
"""Tags of the two forms in locations of errors."""


class SeedsUntilDecided(SpecSection):
    """Seeds 0, 1, … that are added until the answer is certain.

    Attributes:
        until: When no further seed is added.
        at_most: Number of seeds after which none is added, even if the answer is not certain.
    """

    until: Literal["decided"]
    at_most: int = Field(default=PLANNED_LOOKS[-1], gt=PLANNED_LOOKS[0], le=PLANNED_LOOKS[-1])

    @property
    def looks(self) -> tuple[int, ...]:
        """Numbers of seeds after which the study is analysed."""
        return (*(seeds for seeds in PLANNED_LOOKS if seeds < self.at_most), self.at_most)


def _tag_of_seeds(value: Any) -> str:
    return UNTIL_DECIDED if isinstance(value, dict | SeedsUntilDecided) else LISTED


def _replace_one_of_by_any_of(schema: dict[str, Any]) -> None:
    schema["anyOf"] = schema.pop("oneOf")  # code generators require a key that discriminates `oneOf`


_Seed = Annotated[int, Field(ge=0, lt=2**32)]
_SeedList = Annotated[tuple[_Seed, ...], Field(min_length=1, max_length=1000)]
Seeds = Annotated[
    Annotated[_SeedList, Tag(LISTED)] | Annotated[SeedsUntilDecided, Tag(UNTIL_DECIDED)],
    Discriminator(_tag_of_seeds),
    Field(json_schema_extra=_replace_one_of_by_any_of),
]
