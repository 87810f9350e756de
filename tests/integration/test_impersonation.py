"""A kubeconfig with `as:` runs each command with the rights of that user, and no others."""

from collections.abc import Sequence
from pathlib import Path

import pytest
import pytest_asyncio
import yaml

from app.facts.kinds import POD_CLIQUE_SET
from app.kube.api import Object
from app.objects.resource import Resource
from scripts.apiserver.admission_server import ApiServer
from tests import builders
from tests.integration.system import Users, command

pytestmark = pytest.mark.untraced

RBAC = "rbac.authorization.k8s.io"
GROUP = {"kind": "Group", "name": "auditors", "apiGroup": RBAC}
READ = {"apiGroups": ["*"], "resources": ["*"], "verbs": ["get", "list", "watch"]}
ASK = {"apiGroups": ["authorization.k8s.io"], "resources": ["*"], "verbs": ["create"]}
REFUSED = 'User "bob" cannot list resource'


@pytest.fixture(scope="module")
def former() -> Sequence[Resource]:
    return (POD_CLIQUE_SET,)


@pytest_asyncio.fixture(scope="module", loop_scope="module", autouse=True)
async def rights(api: ApiServer) -> None:
    """Auditors may read everything, and bob, on his own, nothing."""
    objects: list[Object] = [
        {"kind": "ClusterRole", "metadata": {"name": "auditors"}, "rules": [READ, ASK]},
        {
            "kind": "ClusterRoleBinding",
            "metadata": {"name": "auditors"},
            "roleRef": {"apiGroup": RBAC, "kind": "ClusterRole", "name": "auditors"},
            "subjects": [GROUP],
        },
    ]
    await api.apply([{"apiVersion": f"{RBAC}/v1", **obj} for obj in objects])


def kubeconfig(api: ApiServer, folder: Path, user: str, **fields: object) -> Path:
    """The kubeconfig of `user`, who acts as somebody else."""
    content = yaml.safe_load(api.kubeconfig.read_text())
    for entry in content["users"]:
        if entry["name"] == user:
            entry["user"] |= {key.replace("_", "-"): value for key, value in fields.items()}
    path = folder / "kubeconfig"
    path.write_text(yaml.safe_dump({**content, "current-context": user}))
    return path


async def run(path: Path, *arguments: str) -> tuple[int, str]:
    """The exit code and all output of a command."""
    code, out, err = await command(*arguments, "--kubeconfig", str(path))
    return code, out + err


NO_RIGHT = "no permission to list"
COMMANDS = {
    ("audit",): REFUSED,
    ("doctor",): REFUSED,
    ("topology",): NO_RIGHT,
    ("explain", "podcliqueset/train"): "You have no permission to get",
}


@pytest.mark.parametrize("words", COMMANDS, ids=lambda words: str(words[0]))
async def test_a_command_has_the_rights_of_the_user_that_it_acts_as(
    api: ApiServer, clients: Users, namespace: str, tmp_path: Path, words: tuple[str, ...]
) -> None:
    await clients.admin.create(POD_CLIQUE_SET, builders.pod_clique_set("train"), namespace)
    within = ("--namespace", namespace) if words[0] == "explain" else ()
    users: list[dict[str, object]] = [{}, {"as": "bob"}, {"as": "bob", "as_groups": ["auditors"]}]
    outputs = [
        (await run(kubeconfig(api, tmp_path, "admin", **fields), *words, *within))[1]
        for fields in users
    ]
    assert [COMMANDS[words] in output for output in outputs] == [False, True, False]


async def test_who_may_not_impersonate_gets_no_answer(api: ApiServer, tmp_path: Path) -> None:
    code, output = await run(kubeconfig(api, tmp_path, "operator", **{"as": "bob"}), "audit")
    assert code == 2
    assert "cannot impersonate" in output
