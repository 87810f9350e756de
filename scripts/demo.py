"""A demonstration: an API server with our webhooks, to which the examples are applied, with the
output of kubectl.

Exit code 0 if every example has the expected outcome. All processes are stopped at the end.
"""

import difflib
import json
import os
import ssl
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import httpx
import yaml

ROOT = Path(__file__).parent.parent
EXAMPLES = ROOT / "manifests" / "examples"
PATIENCE = 60.0
STEPS = (
    ("facts/clustertopology.yaml", "user", "refused"),
    ("facts/clustertopology.yaml", "operator", "stored"),
    ("facts/podcliquesets.yaml", "user", "stored"),
    ("podcliqueset-three-levels.yaml", "user", "stored"),
    ("podcliqueset-refused.yaml", "user", "refused"),
    ("podgroup-hierarchy.yaml", "user", "stored"),
    ("podgroup-refused.yaml", "user", "refused"),
    ("podclique-refused.yaml", "operator", "refused"),
    ("podclique-mnnvl.yaml", "operator", "changed"),
    ("podgang.yaml", "operator", "changed"),
    ("pod-binding.yaml", "admin", "changed"),
)
"""An example, the user who applies it, and the outcome: stored as it was sent, changed by a
webhook, or refused.
"""

POD = {
    "apiVersion": "v1",
    "kind": "Pod",
    "metadata": {"name": "trainer-0", "namespace": "default"},
    "spec": {"containers": [{"name": "main", "image": "registry.example/trainer:1"}]},
}
MUTATED = ("PodClique", "PodGang", "Binding")
COLOURS = {"stored": "32", "changed": "36", "refused": "31", "+": "32", "-": "31"}


def main() -> int:
    with tempfile.TemporaryDirectory() as directory, Running(Path(directory)) as sandbox:
        print(f"API server at {sandbox.url}, our webhooks beside it")
        sandbox.apply(POD, "user")
        wrong = [
            f"{name} as {user}"
            for name, user, outcome in STEPS
            if not show(sandbox, name, user, outcome)
        ]
        print(f"{'=' * 100}\nwhat is there now")
        wrong += [] if show_stored(sandbox) else ["what is stored"]
    print(
        f"\nall stopped. {'NOT as expected: ' + '; '.join(wrong) if wrong else 'Everything went as expected.'}"
    )
    return 1 if wrong else 0


class Refused(Exception):
    """The API server rejected a request. The message is that of kubectl."""


class Running:
    """`grove-admission sandbox` with its state in `directory`, and a client for each of its users."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._kinds: dict[str, list[dict[str, Any]]] = {}

    def __enter__(self) -> "Running":
        options = [
            "--state-dir",
            str(self._directory),
            "--config",
            str(EXAMPLES / "configuration.yaml"),
        ]
        command = [sys.executable, "-m", "app", "sandbox", *options, "--log-level", "warning"]
        self._process = subprocess.Popen(command, cwd=ROOT, stdout=subprocess.DEVNULL)
        ready = self._directory / "ready.json"
        end = time.monotonic() + PATIENCE
        while not ready.exists():
            if self._process.poll() is not None or time.monotonic() > end:
                self._stop()
                raise SystemExit("the sandbox did not start")
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
        """Creates `obj`, or merges it into the stored object.

        Returns the line of kubectl, the stored object and the warnings. Raises Refused.
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

    def list(self, path: str) -> list[dict[str, Any]]:
        items: list[dict[str, Any]] = self._call("user", "GET", path).json()["items"]
        return items

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


def show(sandbox: Running, name: str, user: str, outcome: str) -> bool:
    """Applies an example and prints the result. Returns whether a document has this outcome."""
    print(f"{'=' * 100}\n$ kubectl --context {user} apply -f manifests/examples/{name}")
    outcomes = set()
    for document in yaml.safe_load_all((EXAMPLES / name).read_text()):
        try:
            line, stored, warned = sandbox.apply(document, user)
        except Refused as refused:
            outcomes.add("refused")
            print(paint(str(refused), "refused"))
            continue
        difference = changes(document, stored) if document["kind"] in MUTATED else []
        outcomes.add("changed" if difference else "stored")
        for text in (*(f"Warning: {warning}" for warning in warned), paint(line, "stored")):
            print(text)
        for changed in difference:
            print(f"    {paint(changed, changed[:1])}")
    return outcome in outcomes


def changes(sent: dict[str, Any], stored: dict[str, Any]) -> list[str]:
    """The difference of the labels, annotations and spec of an object, as it was sent and as it is
    stored.
    """
    texts = []
    for obj in (sent, stored):
        metadata = {
            key: obj["metadata"][key] for key in ("labels", "annotations") if key in obj["metadata"]
        }
        spec = {} if sent["kind"] == "Binding" else {"spec": obj.get("spec", {})}
        texts.append(yaml.safe_dump({"metadata": metadata, **spec}).splitlines())
    return list(difflib.unified_diff(*texts, n=2, lineterm=""))[2:]


def show_stored(sandbox: Running) -> bool:
    """Prints the objects that webhooks have created.

    Returns whether each PodClique has its claim.
    """
    claimed: dict[str, str] = {}
    for clique in sandbox.list("/apis/grove.io/v1alpha1/podcliques"):
        for claim in clique["spec"]["podSpec"].get("resourceClaims", []):
            claimed[clique["metadata"]["name"]] = claim["resourceClaimName"]
    for name, claim in claimed.items():
        print(f"    PodClique      {name} uses claim {claim}")
    claims = sandbox.list("/apis/resource.k8s.io/v1/resourceclaims")
    for obj in (*sandbox.list("/apis/resource.nvidia.com/v1beta1/computedomains"), *claims):
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
