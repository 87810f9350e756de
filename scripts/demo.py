"""Show how a stuck gang is explained and placed, and how webhooks judge and complete objects.

This script sends the objects itself, because kubectl may be missing. It runs the commands in lines
that begin with `$`. The exit code is 0 if every command and example has the expected outcome.
"""

import difflib
import json
import os
import shutil
import ssl
import subprocess
import sys
import tempfile
import textwrap
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import fleet
import httpx
import yaml

ROOT = Path(__file__).parent.parent
EXAMPLES = ROOT / "manifests" / "examples"
PATIENCE = 240.0
WIDTH = shutil.get_terminal_size().columns


@dataclass(frozen=True)
class Step:
    """An example, the user who applies it, and its expected outcome.

    The outcome is "stored" (unchanged), "changed" (by a webhook) or "refused".
    """

    example: str
    user: str
    outcome: str


@dataclass(frozen=True)
class Act:
    """A caption of the demonstration, and the examples below it."""

    caption: str
    steps: tuple[Step, ...]


WEBHOOKS = (
    Act(
        "Only the operator can change the topology levels of the cluster.",
        (
            Step("facts/clustertopology.yaml", "user", "refused"),
            Step("facts/clustertopology.yaml", "operator", "stored"),
        ),
    ),
    Act(
        "An invalid workload is rejected, with all of its mistakes at once.",
        (
            Step("podcliqueset-refused.yaml", "user", "refused"),
            Step("facts/podcliquesets.yaml", "user", "stored"),
            Step("podcliqueset-three-levels.yaml", "user", "stored"),
        ),
    ),
    Act(
        "The same for KAI's PodGroups.",
        (
            Step("podgroup-refused.yaml", "user", "refused"),
            Step("podgroup-hierarchy.yaml", "user", "stored"),
        ),
    ),
    Act(
        "A PodClique that asks for multi-node NVLink (MNNVL) gets a ComputeDomain and a claim.",
        (
            Step("podclique-refused.yaml", "operator", "refused"),
            Step("podclique-mnnvl.yaml", "operator", "changed"),
            Step("podgang.yaml", "operator", "changed"),
        ),
    ),
    Act(
        "A Pod gets the topology labels of its node when it is bound.",
        (Step("pod-binding.yaml", "admin", "changed"),),
    ),
)
STUCK = ("llm-serve", "-n", "inference")
RACK = ("topology.kubernetes.io/rack", "rack-c4")
PLACES = ("gpu-c-13", "gpu-c-13", "gpu-c-14", "gpu-c-15", "gpu-c-16")
"""The nodes of the router and the workers, which this script binds because no scheduler runs."""
TREE = "PodCliqueSet llm-serve"
"""The first line of the tree in the answer of explain."""

POD = {
    "apiVersion": "v1",
    "kind": "Pod",
    "metadata": {"name": "trainer-0", "namespace": "default"},
    "spec": {"containers": [{"name": "main", "image": "registry.example/trainer:1"}]},
}
MUTATED = ("PodClique", "PodGang", "Binding")
COLOURS = {"caption": "1", "stored": "32", "changed": "36", "refused": "31", "+": "32", "-": "31"}


def main() -> int:
    print("Starting a local API server with grove-admission and 64 nodes of 8 GPUs ...", flush=True)
    with tempfile.TemporaryDirectory() as directory, Running(Path(directory)) as sandbox:
        wrong = list(unstick(sandbox))
        sandbox.apply(POD, "user")
        wrong += [
            f"{step.example} as {step.user}"
            for act in WEBHOOKS
            for step in opened(act)
            if not show(sandbox, step)
        ]
        caption("The MNNVL objects that the webhooks have created:")
        wrong += [] if show_stored(sandbox) else ["the stored MNNVL objects"]

    end = "Everything went as expected."
    if wrong:
        end = f"NOT as expected: {'; '.join(wrong)}"

    print(f"\nAll processes are stopped. {end}")

    return 1 if wrong else 0


def caption(text: str) -> None:
    print(f"\n{paint(textwrap.fill(text, WIDTH), 'caption')}")


def opened(act: Act) -> tuple[Step, ...]:
    """Print the caption of an act, and return its steps."""
    caption(act.caption)
    return act.steps


def unstick(sandbox: "Running") -> Iterator[str]:
    """Show how a stuck gang is explained and placed. Yield the commands with a wrong outcome."""
    caption("A gang of 5 pods is pending. Why, and how is it fixed?")
    yield from sandbox.command("explain", *STUCK, code=1, expected="LevelLabelMissing")

    key, value = RACK
    caption("The platform team labels the node. What happens next?")
    sandbox.label(fleet.UNLABELLED, {key: value})
    print(f"    node/{fleet.UNLABELLED} labelled {key}={value}")
    yield from sandbox.command("explain", *STUCK, code=1, expected="rack-c4", until=TREE)

    caption("The scheduler places the gang.")
    for pod, node in zip(sandbox.pending("inference"), PLACES, strict=True):
        sandbox.bind("inference", pod, node)
        print(f"    pod/{pod} bound to {node}")
    yield from sandbox.command("explain", *STUCK, code=0, expected="placed as", until=TREE)

    caption("Which rack has room for 4 pods of 8 GPUs? If none has, which wider level?")
    room = ("topology", "--room", "4x8", "--in", "rack")
    yield from sandbox.command(*room, code=1, expected="of 8 blocks", until="ClusterTopology")


class Refused(Exception):
    """The API server rejected a request. The message has the words that kubectl would print."""


class Running:
    """A running sandbox with its state in `directory`, and a client for each of its users."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._kinds: dict[str, list[dict[str, Any]]] = {}

    def __enter__(self) -> "Running":
        objects = self._directory / "fleet.json"
        objects.write_text(fleet.dump())
        options = [
            "--state-dir",
            str(self._directory),
            "--config",
            str(EXAMPLES / "configuration.yaml"),
            "--objects",
            str(objects),
        ]
        command = [sys.executable, "-m", "scripts.apiserver", *options, "--log-level", "warning"]
        log = self._directory / "log"
        with log.open("w") as stream:
            self._process = subprocess.Popen(command, cwd=ROOT, stdout=stream, stderr=stream)

        ready = self._directory / "ready.json"
        end = time.monotonic() + PATIENCE
        while not ready.exists():
            if self._process.poll() is not None or time.monotonic() > end:
                self._stop()
                raise SystemExit(f"the sandbox did not start:\n{log.read_text()}")
            self._wait(0.05)

        self.url = json.loads(ready.read_text())["apiServer"]
        config = yaml.safe_load((self._directory / "kubeconfig").read_text())
        context = ssl.create_default_context(cafile=self._directory / "ca.crt")
        self._clients = {
            user["name"]: httpx.Client(
                base_url=self.url,
                verify=context,
                headers={"Authorization": f"Bearer {user['user']['token']}"},
            )
            for user in config["users"]
        }

        return self

    def __exit__(self, *_: object) -> None:
        for client in self._clients.values():
            client.close()
        self._stop()

    def _stop(self) -> None:
        self._process.terminate()
        self._wait(20)
        self._process.kill()
        self._process.wait()

    def _wait(self, seconds: float) -> None:
        try:
            self._process.wait(seconds)
        except subprocess.TimeoutExpired:
            return

    def apply(self, obj: dict[str, Any], user: str) -> tuple[str, dict[str, Any], list[str]]:
        """Create `obj`, or merge it into the stored object.

        Return the line that kubectl would print, the stored object and the warnings. Raise Refused
        if the API server rejects a request.
        """
        name = obj["metadata"]["name"]
        if obj["kind"] == "Binding":
            pod = f"/api/v1/namespaces/default/pods/{name}"
            answer = self._call(user, "POST", f"{pod}/binding", obj)
            return f"pod/{name} bound", self._call(user, "GET", pod).json(), warnings(answer)

        path = self.path(obj)
        exists = self._clients[user].get(f"{path}/{name}").status_code == 200
        done = "configured" if exists else "created"
        answer = (
            self._call(user, "PATCH", f"{path}/{name}", obj)
            if exists
            else self._call(user, "POST", path, obj)
        )

        return f"{obj['kind'].lower()}/{name} {done}", answer.json(), warnings(answer)

    def items(self, path: str) -> list[dict[str, Any]]:
        items: list[dict[str, Any]] = self._call("user", "GET", path).json()["items"]
        return items

    def command(self, *words: str, code: int, expected: str, until: str = "") -> Iterator[str]:
        """Run `grove-admission` as the user, and print its output up to the text `until`.

        Yield the command if the exit code is not `code` or the output lacks `expected`.
        """
        print(f"$ grove-admission {' '.join(words)}")
        options = ["--kubeconfig", str(self._directory / "kubeconfig"), "--context", "user"]
        ended = subprocess.run(
            [sys.executable, "-m", "app", *words, *options],
            cwd=ROOT,
            capture_output=True,
            text=True,
            check=False,
            env={**os.environ, "COLUMNS": str(WIDTH)},
        )

        output = ended.stdout + ended.stderr
        print((output.partition(until)[0] if until else output).rstrip())
        if code != ended.returncode or expected not in ended.stdout:
            yield f"grove-admission {' '.join(words)}"

    def label(self, node: str, labels: dict[str, str]) -> None:
        self._call("admin", "PATCH", f"/api/v1/nodes/{node}", {"metadata": {"labels": labels}})

    def pending(self, namespace: str) -> list[str]:
        """Return the names of the pods in a namespace that have no node."""
        pods = self.items(f"/api/v1/namespaces/{namespace}/pods")
        return sorted(pod["metadata"]["name"] for pod in pods if "nodeName" not in pod["spec"])

    def bind(self, namespace: str, pod: str, node: str) -> None:
        binding = {
            "apiVersion": "v1",
            "kind": "Binding",
            "metadata": {"name": pod},
            "target": {"apiVersion": "v1", "kind": "Node", "name": node},
        }
        path = f"/api/v1/namespaces/{namespace}/pods/{pod}/binding"
        self._call("admin", "POST", path, binding)

    def path(self, obj: dict[str, Any]) -> str:
        version = obj["apiVersion"]
        kind = obj["kind"]
        root = f"/apis/{version}" if "/" in version else f"/api/{version}"
        if version not in self._kinds:
            self._kinds[version] = self._call("user", "GET", root).json()["resources"]

        resource = next(
            item
            for item in self._kinds[version]
            if item["kind"] == kind and "/" not in item["name"]
        )
        namespace = (
            f"/namespaces/{obj['metadata'].get('namespace', 'default')}"
            if resource["namespaced"]
            else ""
        )

        return f"{root}{namespace}/{resource['name']}"

    def _call(
        self, user: str, method: str, path: str, body: dict[str, Any] | None = None
    ) -> httpx.Response:
        kind = "application/merge-patch+json" if method == "PATCH" else "application/json"
        answer = self._clients[user].request(
            method, path, json=body, headers={"Content-Type": kind}
        )
        if answer.is_error:
            raise Refused(as_kubectl_says(answer.json()))
        return answer


def as_kubectl_says(status: dict[str, Any]) -> str:
    details = status.get("details", {})
    causes = [f"{cause['field']}: {cause['message']}" for cause in details.get("causes", [])]
    if status.get("reason") == "Invalid" and causes:
        listed = causes[0] if len(causes) == 1 else "".join(f"\n* {cause}" for cause in causes)
        return f'The {details["kind"]} "{details["name"]}" is invalid: {listed}'
    return f"Error from server ({status.get('reason')}): {status['message']}"


def warnings(answer: httpx.Response) -> list[str]:
    return [json.loads(text.partition(" - ")[2]) for text in answer.headers.get_list("warning")]


def show(sandbox: Running, step: Step) -> bool:
    """Apply an example, and print the results. Return whether a document has the expected outcome."""
    print(f"{step.user} applies manifests/examples/{step.example}")
    outcomes = set()
    for document in yaml.safe_load_all((EXAMPLES / step.example).read_text()):
        try:
            line, stored, warned = sandbox.apply(document, step.user)
        except Refused as refused:
            outcomes.add("refused")
            print(indented(paint(str(refused), "refused")))
            continue
        difference = changes(document, stored) if document["kind"] in MUTATED else []
        outcomes.add("changed" if difference else "stored")
        more = f" (and {len(warned) - 1} more)" if len(warned) > 1 else ""
        for warning in warned[:1]:
            print(indented(f"Warning: {warning}{more}"))
        print(indented(paint(line, "stored")))
        for changed in difference:
            print(f"        {paint(changed, changed[:1])}")

    return step.outcome in outcomes


def indented(text: str) -> str:
    """Return `text` with indented lines, wrapped to the width of the terminal."""
    lines = (
        textwrap.wrap(
            line,
            WIDTH,
            initial_indent="    ",
            subsequent_indent="      ",
            break_long_words=False,
            break_on_hyphens=False,
        )
        for line in text.splitlines()
    )
    return "\n".join(part for parts in lines for part in parts)


def changes(sent: dict[str, Any], stored: dict[str, Any]) -> list[str]:
    """Return the lines of labels, annotations and spec that differ between two objects."""

    def text(obj: dict[str, Any]) -> list[str]:
        metadata = {
            key: obj["metadata"][key] for key in ("labels", "annotations") if key in obj["metadata"]
        }
        spec = {} if sent["kind"] == "Binding" else {"spec": obj.get("spec", {})}
        return yaml.safe_dump({"metadata": metadata, **spec}).splitlines()

    lines = difflib.unified_diff(text(sent), text(stored), n=0, lineterm="")
    return [line for line in lines if line[:2] not in ("@@", "--", "++")]


def show_stored(sandbox: Running) -> bool:
    """Print the stored MNNVL objects. Return whether PodCliques name exactly the stored claims."""
    claimed: dict[str, str] = {}
    for clique in sandbox.items("/apis/grove.io/v1alpha1/podcliques"):
        for claim in clique["spec"]["podSpec"].get("resourceClaims", []):
            claimed[clique["metadata"]["name"]] = claim["resourceClaimName"]

    for name, claim in claimed.items():
        print(f"    PodClique      {name} uses claim {claim}")

    claims = sandbox.items("/apis/resource.k8s.io/v1/resourceclaims")
    for obj in (*sandbox.items("/apis/resource.nvidia.com/v1beta1/computedomains"), *claims):
        owner = obj["metadata"]["ownerReferences"][0]
        print(
            f"    {obj['kind']:<14} {obj['metadata']['name']} owned by {owner['kind']} {owner['name']}"
        )

    return bool(claimed) and set(claimed.values()) == {
        claim["metadata"]["name"] for claim in claims
    }


def paint(text: str, kind: str) -> str:
    colour = COLOURS.get(kind) if sys.stdout.isatty() and "NO_COLOR" not in os.environ else None
    return f"\033[{colour}m{text}\033[0m" if colour else text


if __name__ == "__main__":
    raise SystemExit(main())
