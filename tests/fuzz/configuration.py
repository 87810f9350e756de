"""The configuration file: it can be used, or every reason why it can't is a finding."""

from collections.abc import Sequence
from functools import cache
from pathlib import Path
from random import Random

import yaml

from app.cluster.filled import cluster_of
from app.config.error import ConfigurationError
from app.config.read import read_configuration, with_overrides
from app.webhooks.registry import routes_over
from tests.fuzz.documents import TOKENS
from tests.fuzz.mutation import Vocabulary, changed_bytes
from tests.fuzz.target import Target
from tests.fuzz.verdicts import PATHS

EXAMPLES = Path(__file__).parents[2] / "manifests"
HEAD = "apiVersion: config.grove.io/v1alpha1\nkind: OperatorConfiguration\n"


def run(data: bytes) -> None:
    findings: tuple[str, ...] | None = None
    try:
        text = data.decode()
        configuration = read_configuration(text, "fuzz")
    except UnicodeDecodeError:
        return
    except ConfigurationError as error:
        findings = error.findings
    if findings is not None:
        assert findings
        assert all(findings)
        return
    moved = with_overrides(
        configuration, {"POD_NAMESPACE": "grove", "GROVE_ADMISSION_PORT": "1"}, {}
    )
    assert set(routes_over(moved, cluster_of(moved, ()))) == set(PATHS)
    assert read_configuration(text, "fuzz") == configuration


@cache
def corpus() -> Sequence[bytes]:
    texts = [
        path.read_text()
        for path in sorted(EXAMPLES.rglob("*.yaml"))
        if HEAD.splitlines()[1] in path.read_text()
    ]
    texts += [
        HEAD,
        f"{HEAD}clusterTopology: {{enabled: true, levels: [{{domain: rack, key: a/b}}]}}\n",
        "kind: ConfigMap",
        "[]",
    ]
    return [text.encode() for text in texts]


@cache
def _vocabulary() -> Vocabulary:
    return Vocabulary(yaml.safe_load(text) for text in corpus())


def mutate(data: bytes, random: Random) -> bytes:
    try:
        document = yaml.safe_load(data) if b"*" not in data and random.random() < 0.6 else None
        if document is not None:
            return yaml.safe_dump(
                _vocabulary().changed(document, random), allow_unicode=True
            ).encode()
    except (yaml.YAMLError, ValueError, RecursionError, TypeError, AttributeError):
        pass  # what PyYAML makes of a text that is no YAML
    if random.random() < 0.5:
        at = random.randint(0, len(data))
        return data[:at] + random.choice(TOKENS) + data[at:]
    return changed_bytes(data, random)


CONFIGURATION = Target("configuration", run, corpus, mutate, most=8 * 1024)
