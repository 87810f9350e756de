"""Define the query parameters of the endpoint /dry-run."""

from typing import Literal

from pydantic import BaseModel, Field

DRY_RUN_USER = "dry-run"
"""The user name in dry runs without the parameter `user`."""


class Parameters(BaseModel):
    """The query parameters of a dry run."""

    operation: Literal["CREATE", "UPDATE", "DELETE"] = Field(
        "CREATE", description="the operation of the requests"
    )
    user: str = Field(DRY_RUN_USER, description="the name of the user who sends the requests")
    old: str = Field("", description="the documents that an UPDATE replaces, as YAML or JSON")
    output: Literal["json", "text"] = Field(
        "json", description="json for programs, text for people"
    )
