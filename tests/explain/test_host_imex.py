"""IMEX as a service of the hosts, by what NVIDIA's driver then leaves out, and as daemons of it."""

from typing import Any

import pytest
from msgspec.structs import replace

from app.explain.answers.branch import Branch
from app.explain.state.snapshot import Snapshot
from app.facts.kubernetes.claim import DeviceClass
from tests.explain.fleet import CLASSES, NOW, facts
from tests.explain.table.recorded import Asking
from tests.explain.table.row import domain

KUBELET = "Read the kubelet's messages in the events of the pod"
ON_HOSTS = f"{KUBELET}. Also check that nvidia-imex-ctl -q prints READY on gpu-00, gpu-01, gpu-02 and gpu-03, because the hosts run IMEX"
DAEMONS = "Ask the platform team to read the log of the DRA driver's kubelet plugin on gpu-00, gpu-01, gpu-02 and gpu-03: it labels the node, so that the ComputeDomain's DaemonSet starts a daemon pod there. The plugin's pod is one of these: kubectl get pods -A -o wide --field-selector spec.nodeName=gpu-00"


def hanging(classes: tuple[str, ...], **of_domain: Any) -> Snapshot:
    """Pods with a ComputeDomain have had a node for 14 minutes, and were not started."""
    snapshot = facts(**domain(), device_classes=tuple(map(DeviceClass, classes)))
    [stored] = snapshot.compute_domains
    return replace(
        snapshot,
        pods=tuple(replace(pod, phase="Pending", bound=NOW - 840) for pod in snapshot.pods),
        compute_domains=(replace(stored, **of_domain),),
    )


def domain_of(tree: Branch) -> tuple[str, str]:
    """Where the ComputeDomain is in a tree, and its state."""
    if tree.ref.kind == "ComputeDomain":
        return tree.where, tree.words
    return next(filter(any, map(domain_of, tree.children)), ("", ""))


@pytest.mark.parametrize(
    ("snapshot", "reason", "remedy", "shown"),
    [
        pytest.param(
            hanging(CLASSES[:1], ready=True, nodes=()),
            "NotStarted",
            ON_HOSTS,
            ("host-managed IMEX", "ready"),
            id="a service of the hosts",
        ),
        pytest.param(
            hanging(CLASSES),
            "DomainNotReady",
            DAEMONS,
            ("0 nodes ready", "not ready"),
            id="daemons of the driver",
        ),
        pytest.param(
            hanging((), ready=True, nodes=()),
            "DomainNotReady",
            DAEMONS,
            ("0 nodes ready", "ready"),
            id="the classes of the driver are not known",
        ),
    ],
)
def test_what_helps_is_where_imex_runs(
    snapshot: Snapshot, reason: str, remedy: str, shown: tuple[str, str], answered: Asking
) -> None:
    said = answered(snapshot)
    assert [each.remedy for each in said.reasons if each.id == reason] == [remedy]
    assert {"NotStarted", "DomainNotReady"} & {each.id for each in said.reasons} == {reason}
    assert domain_of(said.tree) == shown
