"""The main job, shown: a server over HTTPS, the examples posted, verdicts and diffs printed.

Exits 0 when every example was judged as it should be, and leaves nothing running.
"""

import difflib
import socket
import ssl
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import httpx
import yaml

ROOT = Path(__file__).parent.parent
EXAMPLES = ROOT / "manifests" / "examples"
EXPECTED = {
    "podcliqueset-three-levels.yaml": "allowed",
    "podcliqueset-refused.yaml": "refused",
    "podgroup-hierarchy.yaml": "allowed",
    "podgroup-refused.yaml": "refused",
    "podclique-mnnvl.yaml": "patched",
    "podclique-refused.yaml": "refused",
    "podgang.yaml": "patched",
    "pod-binding.yaml": "patched",
    "facts/clustertopology.yaml": "refused",
}
COLOURS = {"allowed": "32", "patched": "36", "refused": "31", "+": "32", "-": "31"}


def main() -> int:
    with tempfile.TemporaryDirectory() as directory, Server(Path(directory)) as server:
        print(f"server up at {server.url}, {server.get('/version').json()}")
        print(server.get("/readyz?verbose").text)
        wrong = [name for name, wanted in EXPECTED.items() if not show(server, name, wanted)]
        counted = [line for line in server.get("/metrics").text.splitlines() if "cache_objects{" in line]
        print("a few of its metrics:", *counted, sep="\n  ")
    print("\nserver stopped.", f"NOT as expected: {', '.join(wrong)}" if wrong else "Every example judged as expected.")
    return 1 if wrong else 0


class Server:
    """`grove-admission serve` on a free port, with the facts of the examples."""

    def __init__(self, directory: Path) -> None:
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = free.getsockname()[1]
        self.url = f"https://localhost:{port}"
        self._directory = directory
        options = ["--host", "127.0.0.1", "--port", str(port), "--certs", str(directory), "--log-level", "warning"]
        options += ["--config", str(EXAMPLES / "configuration.yaml"), "--objects", str(EXAMPLES / "facts")]
        self._command = [sys.executable, "-m", "app", "serve", *options]

    def __enter__(self) -> "Server":
        self._process = subprocess.Popen(self._command, cwd=ROOT, stdout=subprocess.DEVNULL)
        authority = self._directory / "ca.crt"
        for _ in range(100):
            if self._process.poll() is not None:
                raise SystemExit("the server ended before it was ready")
            try:
                self._client = httpx.Client(base_url=self.url, verify=ssl.create_default_context(cafile=authority))
                self._client.get("/readyz").raise_for_status()
            except (OSError, httpx.HTTPError):
                self._process_wait(0.1)
            else:
                return self
        raise SystemExit("the server was not ready within 10 s")

    def _process_wait(self, seconds: float) -> None:
        try:
            self._process.wait(seconds)
        except subprocess.TimeoutExpired:
            return

    def __exit__(self, *_: object) -> None:
        self._client.close()
        self._process.terminate()
        self._process.terminate()
        self._process_wait(5)
        self._process.kill()
        self._process.wait()

    def get(self, path: str) -> httpx.Response:
        return self._client.get(path)

    def dry_run(self, text: str, user: str) -> list[dict[str, Any]]:
        answer = self._client.post("/dry-run", params={"user": user}, content=text)
        answer.raise_for_status()
        results: list[dict[str, Any]] = answer.json()["results"]
        return results


def show(server: Server, name: str, wanted: str) -> bool:
    """Posts one example and prints what came of it; whether that is what was wanted."""
    text = (EXAMPLES / name).read_text()
    print(f"{'=' * 100}\n{name}")
    outcomes = set()
    documents = [document for document in yaml.safe_load_all(text) if document]
    for document, result in zip(documents, server.dry_run(text, "alice"), strict=True):
        if result["webhook"] is None:
            continue
        outcome = "refused" if not result["allowed"] else "patched" if "patch" in result else "allowed"
        outcomes.add(outcome)
        what = result["object"]
        print(f"  {paint(outcome.upper(), outcome)}  {what['kind']} {what['name']}  ({result['webhook']})")
        reasons = [f"{cause['field']}: {cause['message']}" for cause in result.get("causes", [])]
        for line in [*(reasons or filter(None, [result.get("message")])), *result.get("warnings", [])]:
            print(f"      {line}")
        for made in result.get("wouldCreate", []):
            print(f"      would create {made['kind']} {made['metadata']['name']}")
        show_difference(document, result.get("patchedObject"))
    return outcomes == {wanted}


def show_difference(before: dict[str, Any], after: dict[str, Any] | None) -> None:
    if after is None:
        return
    texts = [yaml.safe_dump(one, sort_keys=False).splitlines() for one in (before, after)]
    for line in list(difflib.unified_diff(*texts, n=2, lineterm=""))[2:]:
        print(f"      {paint(line, line[:1])}")


def paint(text: str, kind: str) -> str:
    colour = COLOURS.get(kind)
    return f"\033[{colour}m{text}\033[0m" if colour and sys.stdout.isatty() else text


if __name__ == "__main__":
    raise SystemExit(main())
