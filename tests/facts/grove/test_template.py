"""The template of a PodCliqueSet, with what is missing, and the GPUs of its pods.

Tests `app/facts/grove/podclique.py` and `app/facts/grove/review_fields.py`.
"""

import json
from typing import Any

import msgspec
import pytest

from app.facts.grove.review_fields import PodCliqueSetFields
from app.facts.grove.template import CliqueTemplate, read_template


def test_a_template_is_read_with_what_is_missing() -> None:
    read = read_template(
        {"spec": {"template": {"cliques": [{"name": "a"}, 3], "podCliqueScalingGroups": "x"}}}
    )
    assert (read.name, read.replicas, read.groups) == ("", 1, ())
    assert [(each.name, each.pods, each.gpus) for each in read.cliques] == [("a", 1, 0)]


@pytest.mark.parametrize(
    ("pod_spec", "gpus", "whole"),
    [
        ({"containers": [{"resources": {"limits": {"nvidia.com/gpu": "4"}}}] * 2}, 8, 8),
        (
            {
                "initContainers": [{"resources": {"requests": {"nvidia.com/gpu": 8}}}],
                "containers": [{}],
            },
            8,
            8,
        ),
        ({"containers": [{"resources": {"limits": {"nvidia.com/mig-1g.5gb": 2}}}]}, 2, 0),
        (
            {
                "containers": [
                    {
                        "resources": {
                            "limits": {"nvidia.com/gpu": 0},
                            "requests": {"nvidia.com/gpu": 4},
                        }
                    }
                ]
            },
            4,
            4,
        ),
        ({"containers": {}}, 0, 0),
    ],
)
def test_gpus_of_a_pod(pod_spec: Any, gpus: int, whole: int) -> None:
    obj = {"spec": {"template": {"cliques": [{"name": "a", "spec": {"podSpec": pod_spec}}]}}}
    (read,) = read_template(obj).cliques
    assert isinstance(read, CliqueTemplate)
    assert (read.gpus, read.whole_gpus) == (gpus, whole)


def full(name: str) -> dict[str, Any]:
    """A part of a set with all that is read of each part."""
    return {
        "name": name,
        "labels": {"kai.scheduler/queue": f"queue-{name}"},
        "annotations": {"grove.io/mnnvl-enabled": "true"},
        "topologyConstraint": {"packDomain": "rack", "pack": {"required": "rack"}},
        "replicas": 3,
        "minAvailable": 2,
        "cliqueNames": ["a"],
    }


def test_a_review_is_parsed_as_far_as_the_template_is_read() -> None:
    container = {"image": "x", "resources": {"limits": {"nvidia.com/gpu": 4}}}
    first = {"resources": {"limits": {"nvidia.com/gpu": 8}}}
    pods = {
        "containers": [container],
        "initContainers": [first],
        "resourceClaims": [{"name": "own"}],
        "volumes": [1],
    }
    obj = {
        "metadata": full("s"),
        "spec": {
            "replicas": 5,
            "template": {
                "topologyConstraint": {"packDomain": "zone"},
                "podCliqueScalingGroups": [full("g")],
                "cliques": [{**full("a"), "spec": {"replicas": 2, "podSpec": pods}}],
            },
        },
    }
    parsed = msgspec.json.decode(json.dumps(obj), type=PodCliqueSetFields)
    assert "volumes" not in str(parsed)
    assert read_template(parsed) == read_template(obj)
