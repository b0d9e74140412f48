"""Models of tokens, sessions and share links."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, StringConstraints

from bln_search.core.credentials import strip_surroundings
from bln_search.core.enums import Scope
from bln_search.specs.spec_section import require_storable_text
from bln_search.storage.share_links import MAX_DAYS
from service.schemas.base import NO_NUL, Name, whole_float_to_int

Label = Annotated[str, StringConstraints(max_length=64), NO_NUL, AfterValidator(require_storable_text)]
Days = Annotated[int, Field(ge=1, le=3650, strict=True), BeforeValidator(whole_float_to_int)] | None


class TokenCreate(BaseModel):
    """A token to create. account: only admins may create tokens for other accounts."""

    model_config = ConfigDict(extra="forbid")

    label: Label = ""
    scope: Scope = Scope.READ
    account: Name | None = None
    days: Days = Field(default=None, description="days until it expires; by default those of the token that creates it")


class TokenOut(BaseModel):
    """A token without its secret."""

    model_config = ConfigDict(from_attributes=True)

    id: int
    account: str
    label: str
    scope: Scope
    created_at: datetime
    expires_at: datetime | None
    revoked_at: datetime | None


class TokenCreated(TokenOut):
    """A new token. secret: returned only once."""

    secret: str


class ShareLinkCreate(BaseModel):
    """A share link to create. label: by which people recognize it."""

    model_config = ConfigDict(extra="forbid")

    label: Label = ""
    days: Annotated[int, Field(ge=1, le=MAX_DAYS, strict=True), BeforeValidator(whole_float_to_int)] = Field(
        default=30, description="days until it ends; it does not outlive the token that creates it"
    )


class ShareLinkOut(BaseModel):
    """A share link of a study without its secret. account: the account that created it."""

    model_config = ConfigDict(from_attributes=True)

    id: int
    account: str
    label: str
    created_at: datetime
    expires_at: datetime
    revoked_at: datetime | None


class ShareLinkCreated(ShareLinkOut):
    """A new share link. path: address of the page on this service, returned only once."""

    path: str
    secret: str = Field(description="also a token for the read operations of this study")


class TokenRevocation(BaseModel):
    """The account whose tokens are revoked. Only admins may name another account than their own."""

    model_config = ConfigDict(extra="forbid")

    account: Name


class RevokedTokens(BaseModel):
    """Revoked tokens of an account."""

    account: str
    revoked: int = Field(description="access tokens that were valid until now")


class SignIn(BaseModel):
    """The access token with which a browser signs in."""

    model_config = ConfigDict(extra="forbid")

    token: Annotated[str, AfterValidator(strip_surroundings), StringConstraints(min_length=1, max_length=200)]


class Session(BaseModel):
    """Account and scope of a session or token."""

    account: str
    scope: Scope
