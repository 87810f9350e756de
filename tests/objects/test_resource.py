"""Names and versions of resources."""

from app.facts.kinds import POD_CLIQUE
from app.objects.resource import NODE


def test_resources_say_their_name_and_version() -> None:
    assert (str(NODE), NODE.api_version()) == ("nodes", "v1")
    assert (str(POD_CLIQUE), POD_CLIQUE.api_version("v2")) == ("podcliques.grove.io", "grove.io/v2")
