"""What all parts of a study file share."""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel, ConfigDict, model_validator


class Spec(BaseModel):
    """Immutable; an unknown key or a number that is not finite is an error."""

    @model_validator(mode="before")
    @classmethod
    def _no_words_for_numbers(cls, values: Any) -> Any:
        """YAML reads `yes` and `on` as true, which would pass for the number 1."""
        for name, value in values.items() if isinstance(values, dict) else ():
            members = value if isinstance(value, list) else [value]
            field = cls.model_fields.get(name)
            if field is not None and field.annotation is not bool and any(isinstance(one, bool) for one in members):
                raise ValueError(f"{name} takes no yes or no")
        return values

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False, validate_default=True)
