"""The fields of requests and answers, of which the description of the interface (OpenAPI) is made."""

from __future__ import annotations

from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field, StrictBool, StrictInt, StrictStr

# The first type that fits, which is faster than the best one.
Id = Annotated[StrictInt | StrictStr, Field(union_mode="left_to_right")]
Weight = Annotated[float, Field(gt=0, allow_inf_nan=False)]
Item = Annotated[StrictInt | StrictStr | tuple[Id, Weight], Field(union_mode="left_to_right")]
Value = StrictInt | StrictStr | StrictBool | float
Count = Annotated[StrictInt, Field(ge=1)]


class _Fields(BaseModel):
    model_config = ConfigDict(extra="forbid")


class User(_Fields):
    """A user of a request."""

    user: Id | None = Field(None, description="what the answer repeats")
    items: list[Item] = Field(
        default_factory=list,
        description="ids of the user's items; [id, value] for a model trained with interaction weights",
    )
    user_features: dict[str, Value | list[Value]] = Field(
        default_factory=dict, description="values by column, for a model with user features"
    )
    exclude: list[Id] = Field(default_factory=list, description="ids of items that are not recommended to this user")


class Recommend(_Fields):
    """A request for lists."""

    users: list[User]
    k: Count = Field(10, description="items in a list")
    keep_seen: StrictBool = Field(False, description="also recommend the user's items")
    include: list[Id] | None = Field(None, description="ids of the only items to recommend; default: all but new items")
    exclude: list[Id] = Field(default_factory=list, description="ids of items that are not recommended")
    at_most: Annotated[StrictInt, Field(ge=0)] | None = Field(
        None, description="items of a category in a list; 0: no limit; default: N of --at-most FILE N"
    )
    reasons: Annotated[StrictInt, Field(ge=0)] = Field(0, description="reasons for each item")
    titles: StrictBool = False


class Similar(_Fields):
    """A request for similar items."""

    items: list[Id]
    k: Count = Field(10, description="items in a list")
    titles: StrictBool = False


class UserList(BaseModel):
    """The list of a user, best first."""

    user: int | str | None = None
    items: list[int | str]
    scores: list[float | None] = Field(description="null: the most popular items, for a user without known items and features")
    titles: list[str] | None = None
    because: list[list[int | str]] | None = Field(None, description="the reasons of each item, largest contribution first")
    contribution: list[list[float]] | None = None
    unknown: list[str] | None = Field(None, description="unknown ids of the user")


class Recommended(BaseModel):
    """The lists of the users, in the order of the request."""

    users: list[UserList]
    unknown: list[str] | None = Field(None, description="unknown ids of include and exclude")


class SimilarList(BaseModel):
    """The items that are most similar to one, best first."""

    item: int | str
    similar: list[int | str]
    scores: list[float]
    titles: list[str] | None = None


class SimilarItems(BaseModel):
    """The lists of the known items, in the order of the request."""

    items: list[SimilarList]
    unknown: list[str] | None = None


class Problem(BaseModel):
    """Why a request has no answer."""

    error: str
