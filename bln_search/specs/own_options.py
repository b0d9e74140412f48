"""Keys of a section that only the model or the task has that the section names."""

from __future__ import annotations

from collections.abc import Mapping
from difflib import get_close_matches
from functools import cache
from typing import Any, ClassVar, Self

from pydantic import (
    ConfigDict,
    Field,
    JsonValue,
    ModelWrapValidatorHandler,
    ValidationError,
    create_model,
    model_validator,
)
from pydantic_core import InitErrorDetails

from bln_search.core.extension_point import ExtensionPoint
from bln_search.specs.spec_section import SpecSection


def find_described_options(point: ExtensionPoint[Any], name: str) -> Mapping[str, Any] | None:
    """The own options in the description of a data set or model; None for one that is not known here."""
    info = point.find_info(name)
    if info is None:
        return {} if point.has_no_description(name) else None
    options: Mapping[str, Any] = info.own_options
    return options


class SectionWithOwnOptions(SpecSection):
    """A section with a `name`, whose further keys are those of its fields and the own options of what it names.

    Attributes:
        kind: Of what it names, as `model`.
    """

    kind: ClassVar[str]

    model_config = ConfigDict(extra="allow")
    __pydantic_extra__: dict[str, JsonValue] = Field(init=False)

    @classmethod
    def find_own_options(cls, name: str) -> Mapping[str, Any] | None:
        """The type of each own option; None where they are not known, and not checked here."""
        raise NotImplementedError

    @classmethod
    def list_known_keys(cls, name: object) -> list[str]:
        """The keys of the section where it has this name."""
        own = cls.find_own_options(name) if isinstance(name, str) else None
        return [*cls.model_fields, *(own or {})]

    @property
    def own_options(self) -> dict[str, JsonValue]:
        """The values of the own options that the study sets."""
        return dict(self.__pydantic_extra__)

    @model_validator(mode="wrap")
    @classmethod
    def _validate_with_own_options(cls, values: Any, validate: ModelWrapValidatorHandler[Self]) -> Self:
        """Validate the own options, and report their problems with those of the fields."""
        if not isinstance(values, dict):
            return validate(values)
        own = {key: value for key, value in values.items() if key not in cls.model_fields}
        errors: list[Any] = []
        try:
            own = cls._validate_own_options(values.get("name"), own)
        except ValidationError as error:
            errors += error.errors()
        try:
            spec = validate({key: value for key, value in values.items() if key in cls.model_fields} | own)
        except ValidationError as error:
            errors = [*error.errors(), *errors]
        if errors:
            raise ValidationError.from_exception_data(cls.__name__, errors)
        return spec

    @classmethod
    def _validate_own_options(cls, name: object, options: dict[str, Any]) -> dict[str, Any]:
        """The values of the options that are set. Raises ValidationError for unknown options and invalid values."""
        types = cls.find_own_options(name) if options and isinstance(name, str) else {}
        if types is None:
            return {key: value for key, value in options.items() if value is not None}
        unknown = [cls._describe_unknown_option(key, name) for key in options if key not in types]
        if unknown:
            raise ValidationError.from_exception_data(cls.__name__, unknown)
        section = _make_section(tuple(types.items()))
        return section.model_validate(options).model_dump(mode="json", exclude_none=True)

    @classmethod
    def _describe_unknown_option(cls, option: str, name: object) -> InitErrorDetails:
        known = cls.list_known_keys(name)
        similar = get_close_matches(str(option), known, n=1)
        problem = f"the {cls.kind} {name} has no option {option!r}" if isinstance(name, str) else "unknown key"
        advice = f"did you mean `{similar[0]}`?" if similar else f"known here: {', '.join(known)}"
        error = ValueError(f"{problem}; {advice}")
        return InitErrorDetails(type="value_error", loc=(option,), input=None, ctx={"error": error})


@cache
def _make_section(types: tuple[tuple[str, Any], ...]) -> type[SpecSection]:
    """The class of a section whose keys are options of these types."""
    fields: dict[str, Any] = {name: (kind | None, None) for name, kind in types}
    return create_model("OwnOptions", __base__=SpecSection, **fields)
