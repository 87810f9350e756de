"""Questions of a new user, and where the pages answer them: links from the README lead there in
three steps at most.
"""

import re
from pathlib import Path
from typing import NamedTuple

import pytest

ROOT = Path(__file__).parents[1]
README = ROOT / "README.md"
MOST_STEPS = 3


class Question(NamedTuple):
    """What somebody asks, and the answer.

    Each step is a link on the page before it, or `#section` of that page. `answer` is text of the
    last section that is opened.
    """

    asked: str
    steps: tuple[str, ...]
    answer: str


INSTALL = "manifests/guide/install.md"
INCIDENT = "manifests/guide/incident.md"
SYMPTOMS = "manifests/guide/symptoms.md"
RIGHTS = "manifests/guide/rights.md"
GUIDE = "manifests/README.md#i-want-to"
WAITING = "manifests/guide/waiting.md"
ASSISTANTS = "manifests/guide/assistants.md"

QUESTIONS = (
    # install
    Question(
        "Helm, with our namespace, registry and cert-manager",
        (INSTALL, "#own-namespace-registry-and-certificates"),
        "--namespace gpu-policy --create-namespace",
    ),
    Question(
        "Argo CD: what does it compare, and in which order",
        (INSTALL, "#with-argo-cd-or-flux"),
        "ignoreDifferences:",
    ),
    Question(
        "a cluster without ComputeDomains",
        (GUIDE, "guide/grove-and-kai.md"),
        "Without NVIDIA's ComputeDomains",
    ),
    Question(
        "nodes without internet: build the image, its SBOM",
        (INSTALL, "#the-image"),
        "./scripts/sbom",
    ),
    Question(
        "two weeks in which nothing is refused",
        (INCIDENT, "#a-trial-period"),
        "`enforcement: {mode: warn}`",
    ),
    Question(
        "everything is denied by NetworkPolicies: which ports",
        (INSTALL, "networks.md", "#networkpolicies"),
        "The server listens on two ports",
    ),
    # incident
    Question(
        "503 on all writes: go on at once, and back",
        (SYMPTOMS, "incident.md#switch-off"),
        "kubectl delete mutatingwebhookconfigurations",
    ),
    Question(
        "x509: unknown authority on each write",
        (SYMPTOMS, "certificates.md"),
        "which caBundle differs",
    ),
    Question(
        "valid sets are refused since an upgrade: go back",
        (SYMPTOMS, "upgrade.md#roll-back"),
        "rollout undo",
    ),
    Question(
        "a namespace hangs in Terminating",
        (SYMPTOMS, "upgrade.md#when-grove-changes-to-clustertopologybindings"),
        "kubectl -n NAMESPACE patch podcliqueset NAME",
    ),
    Question(
        "our pods are OOMKilled",
        (SYMPTOMS, "../../app/server/README.md#memory"),
        "about 250 MiB",
    ),
    Question(
        "Grove's operator ends at its start",
        (SYMPTOMS, "grove-and-kai.md"),
        "Switch Grove's topology feature on",
    ),
    # rights
    Question(
        "which rights its account has: Secrets, deletions",
        (RIGHTS, "#rights-of-its-account"),
        "kubectl auth can-i --list",
    ),
    Question(
        "what `edit` in one namespace shows of others",
        (RIGHTS, "#what-people-may-see"),
        "a user with `view`, `edit` or `admin` in one namespace",
    ),
    Question(
        "can a tenant get round it, by a label or a PodGang",
        (RIGHTS, "#what-binds-tenants"),
        "No label or annotation",
    ),
    Question(
        "let team A use its own queue only",
        (GUIDE, "guide/queue-guard.md"),
        "verbs: [use]",
    ),
    Question(
        "what an assistant may see and change",
        (ASSISTANTS,),
        "Nothing is written, and no local file is read",
    ),
    Question(
        "is a record free of images and env",
        (GUIDE, "../app/commands/README.md#records"),
        "no environment variables, arguments, images, Secrets",
    ),
    # wait
    Question(
        "a JobSet's pods wait, KAI says nothing",
        (SYMPTOMS,),
        "`grove-admission explain pod/NAME -n NAMESPACE` | all reasons",
    ),
    Question(
        "where do I ask for block in place of rack",
        (WAITING, "#ask-for-another-level"),
        "kubectl replace --force",
    ),
    Question(
        "who is before us, and when is it our turn",
        (WAITING, "#which-gangs-come-first"),
        "`AfterOthers` names the gangs",
    ),
    Question(
        "60 GPUs are free, and a gang of 32 waits",
        (SYMPTOMS,),
        "grove-admission topology --room 4x8 --in rack",
    ),
    Question(
        "drain a rack tonight: what breaks",
        (WAITING, "#before-nodes-are-drained"),
        "--if 'drain rack=RACK'",
    ),
    Question(
        "placed, and stuck in ContainerCreating",
        (SYMPTOMS,),
        "`grove-admission explain pod/NAME -n NAMESPACE` | `DomainNotReady`",
    ),
)


def follow(question: Question) -> str:
    """Return the text that is open after the last step. Raise ValueError for a step that is none."""
    page = README
    opened = page.read_text()
    for step in question.steps:
        target, _, anchor = step.partition("#")
        if target and f"]({step})" not in page.read_text():
            raise ValueError(f"{page.relative_to(ROOT)} has no link to {step}")
        page = (page.parent / target).resolve() if target else page
        opened = section(page.read_text(), anchor)
    return opened


def section(text: str, anchor: str) -> str:
    """Return the section with this anchor and those below it, or the whole page without one."""
    if not anchor:
        return text
    for found in re.finditer(r"^(#+) (.+)$", text, re.MULTILINE):
        if re.sub(r"[^\w\- ]", "", found[2].lower()).replace(" ", "-") == anchor:
            following = re.compile(rf"^#{{1,{len(found[1])}}} ", re.MULTILINE)
            end = following.search(text, found.end())
            return text[found.start() : end.start() if end else len(text)]
    raise ValueError(f"there is no section {anchor}")


@pytest.mark.parametrize("question", QUESTIONS, ids=lambda question: question.asked)
def test_a_question_is_answered_in_three_steps(question: Question) -> None:
    assert 0 < len(question.steps) <= MOST_STEPS
    assert question.answer in " ".join(follow(question).split())
