"""NVLink channels that are held and not needed."""

from typing import Any

import pytest
from msgspec.structs import replace

from app.facts.identity import Ref
from app.facts.kubernetes.claim import Consumer, Device, ResourceClaim
from app.facts.kubernetes.pod import Pod, PodClaim, Shape
from app.facts.nvidia.computedomain import ComputeDomain
from app.rules.mnnvl.held_channels import HeldChannel, held_channels
from tests.said import Said

CHANNEL = "compute-domain-default-channel.nvidia.com"
DAEMON = "compute-domain-daemon.nvidia.com"
NODES = {"n0": 8000, "n1": 8000, "small": 1000}


def pod(name: str, node: str = "n0", gpus: int = 8, **changes: Any) -> Pod:
    shape = Shape((("nvidia.com/gpu", gpus * 1000),) if gpus else (("cpu", 1000),))
    made = {"claims": (PodClaim("c", f"{name}-c", "d-channel"),), **changes}
    return Pod("ml", name, node=node, shape=shape, **made)


def named(name: str, node: str = "n0", gpus: int = 8, **changes: Any) -> Pod:
    """A pod that names the claim that it shares with others."""
    return pod(name, node, gpus, claims=(PodClaim("c", "shared"),), **changes)


def claim(of: str, name: str = "", **changes: Any) -> ResourceClaim:
    consumers = (Consumer(of),) if of else ()
    made = {"classes": (CHANNEL,), "allocated": True, "domain": "uid-d", "consumers": consumers}
    return ResourceClaim("ml", name or f"{of or 'old'}-c", **{**made, **changes})


DOMAIN = ComputeDomain("ml", "d", "uid-d", template="d-channel")
ENDING = ComputeDomain("ml", "d", "uid-d", template="d-channel", held_by=("x/y",))
TWO = [pod("a"), pod("b", "n1")]

CASES: list[Any] = [
    pytest.param(TWO, [claim("a"), claim("b")], DOMAIN, [], id="two nodes that talk"),
    pytest.param(
        [pod("a"), pod("b", "")],
        [claim("a")],
        DOMAIN,
        [],
        id="the second pod still waits for its node",
    ),
    pytest.param(
        [pod("a")],
        [claim("a")],
        DOMAIN,
        ["ml/a-c n0: pod a is the only pod of ComputeDomain d, so it talks to no other node"],
        id="one pod alone",
    ),
    pytest.param(
        [pod("a", gpus=1), pod("b", "n1")],
        [claim("a"), claim("b")],
        DOMAIN,
        ["ml/a-c n0: pod a requests 1 of the 8 GPUs of its node"],
        id="one GPU of eight",
    ),
    pytest.param(
        [pod("a", gpus=0), pod("b", "n1")],
        [claim("a"), claim("b")],
        DOMAIN,
        ["ml/a-c n0: pod a requests none of the 8 GPUs of its node"],
        id="no GPU at all",
    ),
    pytest.param(
        [named("a", gpus=0), named("b", gpus=0)],
        [claim("a", "shared", consumers=(Consumer("a"), Consumer("b")))],
        DOMAIN,
        ["ml/shared n0: pods a, b request none of the 8 GPUs of their node"],
        id="no GPU in two pods",
    ),
    pytest.param(
        [named("a"), named("b", "n1"), pod("c", "")],
        [claim("a", "shared", consumers=(Consumer("a"), Consumer("b")))],
        DOMAIN,
        [],
        id="two pods share a claim, and a third one has the template's",
    ),
    pytest.param(
        [named("a"), pod("c", "")],
        [claim("a", "shared")],
        DOMAIN,
        [],
        id="one pod names a claim, and another one has the template's",
    ),
    pytest.param(
        [pod("a", "small", gpus=1), pod("b", "n1")],
        [claim("a"), claim("b")],
        DOMAIN,
        [],
        id="the only GPU of its node",
    ),
    pytest.param(
        [pod("a", "unknown", gpus=1), pod("b", "n1")],
        [claim("a"), claim("b")],
        DOMAIN,
        [],
        id="a node whose GPUs are not known",
    ),
    pytest.param(TWO, [claim("")], DOMAIN, ["ml/old-c -: no pod uses it any more"], id="dead"),
    pytest.param(
        TWO,
        [claim("", devices=(Device("compute-domain.nvidia.com", "n1", "channel-0"),))],
        DOMAIN,
        ["ml/old-c n1: no pod uses it any more"],
        id="dead, on a node that only its devices name",
    ),
    pytest.param(
        TWO,
        [claim("", deleting=1.0)],
        DOMAIN,
        ["ml/old-c -: no pod uses it any more and it is being deleted"],
        id="dead, and already being deleted",
    ),
    pytest.param(
        [pod("a", phase="Succeeded"), pod("b", "n1")],
        [claim("a")],
        DOMAIN,
        ["ml/a-c -: no pod uses it any more"],
        id="its pod has ended",
    ),
    pytest.param(
        TWO,
        [claim("a"), claim("b")],
        ENDING,
        [
            "ml/a-c n0: its ComputeDomain d, which pod a still uses, is being deleted",
            "ml/b-c n1: its ComputeDomain d, which pod b still uses, is being deleted",
        ],
        id="a ComputeDomain that is being deleted",
    ),
    pytest.param(
        [named("a", ""), named("b", "n1", phase="Succeeded")],
        [claim("b", name="shared")],
        DOMAIN,
        [],
        id="a pod that waits names it",
    ),
    pytest.param(
        [named(f"p{number}", gpus=1) for number in range(8)],
        [claim("p0", name="shared", consumers=tuple(Consumer(f"p{n}") for n in range(8)))],
        DOMAIN,
        [],
        id="pods that share it use all GPUs of the node",
    ),
    pytest.param(
        [pod("a", gpus=0, claims=(*pod("a").claims, PodClaim("gpus", "gpus"))), pod("b", "n1")],
        [claim("a"), claim("b")],
        DOMAIN,
        [],
        id="its GPUs are a claim",
    ),
    pytest.param([pod("a")], [claim("a", allocated=False)], DOMAIN, [], id="not allocated"),
    pytest.param([pod("a")], [claim("a", classes=(DAEMON,))], DOMAIN, [], id="a daemon's claim"),
    pytest.param([pod("a")], [claim("a", domain="")], DOMAIN, [], id="of an unknown ComputeDomain"),
]


@pytest.mark.parametrize(("pods", "claims", "domain", "expected"), CASES)
def test_channels_that_are_held(
    pods: list[Pod],
    claims: list[ResourceClaim],
    domain: ComputeDomain,
    expected: list[str],
    said: Said,
) -> None:
    found = held_channels(claims, pods, [domain], NODES).held
    told = [f"{'/'.join(each.claim.key)} {each.node or '-'}: {each.reason}" for each in found]
    assert told == expected
    assert all(each.remedy.startswith(("Remove ", "Delete ", "Ask ")) for each in found)
    said(each.remedy for each in found)


def test_the_command_deletes_each_pod_that_holds_an_ending_domain() -> None:
    both = [named("a"), named("b")]
    consumers = (Consumer("a"), Consumer("b"))
    (found,) = held_channels(
        [claim("a", name="shared", consumers=consumers)], both, [ENDING], NODES
    ).held
    assert found.remedy == "Delete the pods: kubectl delete pod a b -n ml"


@pytest.mark.parametrize(("node", "of"), [("n0", "n0"), ("", "a node")])
def test_a_held_channel_in_words(node: str, of: str) -> None:
    held = HeldChannel(Ref("ResourceClaim", "ml", "c"), node, "no pod uses it", "Delete it")
    assert held.text == f"holds the NVLink channel of {of}, although no pod uses it"


@pytest.mark.parametrize(
    ("pods", "waiting"),
    [
        pytest.param([pod("a", ""), pod("b", ""), pod("c")], 2, id="of the template"),
        pytest.param([named("a", ""), named("b")], 1, id="of a claim that they share"),
        pytest.param([pod("a", "", deleting=1.0)], 0, id="being deleted"),
        pytest.param([pod("a", "", phase="Failed")], 0, id="ended"),
        pytest.param([pod("a", "", claims=())], 0, id="without a claim"),
        pytest.param([pod("a", "", claims=(PodClaim("c", "other"),))], 0, id="of another claim"),
        pytest.param([replace(pod("a", ""), namespace="x")], 0, id="of another namespace"),
    ],
)
def test_pods_that_wait_for_a_channel_are_counted(pods: list[Pod], waiting: int) -> None:
    claims = [claim("z", name="shared"), claim("z", name="other", classes=("gpu.nvidia.com",))]
    assert held_channels(claims, pods, [DOMAIN], NODES).waiting == waiting
