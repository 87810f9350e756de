"""Define the result of a check, and count and print results.

Each result has a status and a message, and may have a remedy.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Literal

from msgspec.structs import asdict

from app.base.groups import by_key
from app.base.safe_text import visible
from app.base.value import Value
from app.webhooks.configurations import APP_LABEL, NAME

Status = Literal["ok", "warning", "problem", "unknown"]


class Check(Value):
    """The result of a check. The fields have the same names in JSON."""

    status: Status
    """`unknown` means that the check could not be performed."""
    message: str
    """The result in words."""
    remedy: str = ""
    """The remedy, or "" if there is nothing to do or no remedy is known."""


Checks = list[Check]
"""The results of one group of checks."""

Examined = dict[str, Checks]
"""The results of checks by subject, such as `webhooks`."""


def ok(message: str) -> Check:
    """Return the result of a check that has passed."""
    return Check("ok", message)


def warning(message: str, remedy: str = "") -> Check:
    """Return the result of a check that found a minor problem."""
    return Check("warning", message, remedy)


def problem(message: str, remedy: str) -> Check:
    """Return the result of a check that found a problem."""
    return Check("problem", message, remedy)


def unknown(message: str, remedy: str) -> Check:
    """Return the result of a check that could not be performed."""
    return Check("unknown", message, remedy)


def apply_again(path: str) -> str:
    """Return the remedy that restores the objects in the file `path` of the manifests.

    It names no file to apply, because an overlay may change the namespace or remove permissions.
    """
    return (
        f"Apply your overlay again, which includes {path}: kubectl apply -k OVERLAY. If you"
        " installed the chart, run instead: helm upgrade RELEASE manifests/chart -n NAMESPACE"
        " --reset-then-reuse-values"
    )


def logs_of(namespace: str) -> str:
    """Return the command that prints the logs of all replicas.

    `kubectl logs deployment/NAME` prints only the log of one replica, preferably of a ready one.
    """
    return f"kubectl -n {namespace} logs --selector {APP_LABEL}={NAME} --tail=-1 --prefix"


def switch_off(name: str) -> str:
    """Return the remedy that lets writes pass while no server answers.

    `name` is the name of our webhook configurations.
    """
    return (
        "If writes cannot wait, or grove-admission was removed, delete its webhook configurations:"
        f" kubectl delete mutatingwebhookconfigurations,validatingwebhookconfigurations {name}"
    )


def join_findings(checks: Iterable[Check]) -> Checks:
    """Join findings with the same status and remedy, and return them before the other checks.

    For example, a cluster without Grove lacks four APIs.
    """
    passed = []
    findings = []
    for check in checks:
        if check.status == "ok":
            passed.append(check)
        else:
            findings.append(((check.status, check.remedy), check.message))
    joined = by_key(findings).items()
    return [
        *(Check(status, "; ".join(messages), remedy) for (status, remedy), messages in joined),
        *passed,
    ]


def exit_code(examined: Examined) -> int:
    """Return 2 if a check could not be performed, 1 if there are problems, and 0 otherwise."""
    counts = summary(examined)
    return 2 if counts["unknown"] else 1 if counts["problem"] else 0


def lines(examined: Examined, *, everything: bool = False) -> Iterator[str]:
    """Yield the verdict, then the checks by subject, as lines that are safe to print on a terminal.

    Checks with the status `ok` are left out, unless `everything` is true.
    """
    yield verdict(examined)
    for subject, checks in examined.items():
        shown = [check for check in checks if everything or check.status != "ok"]
        yield from map(visible, _lines(subject, shown))


def _lines(subject: str, checks: Sequence[Check]) -> Iterator[str]:
    if checks:
        yield subject
    for check in checks:
        yield f"  {check.status:<8} {check.message}"
        if check.remedy:
            yield f"{'':11}remedy: {check.remedy}"


_VERDICTS = {
    0: "the installation has no problems",
    1: "the installation has problems",
    2: "not everything could be checked",
}


def verdict(examined: Examined) -> str:
    """Return the result in one line: `the installation has problems: 1 problem, 41 ok`."""
    counts = summary(examined)
    order: tuple[Status, ...] = ("problem", "unknown", "warning", "ok")
    words = ", ".join(_counted(counts[status], status) for status in order if counts[status])
    return f"{_VERDICTS[exit_code(examined)]}: {words or 'nothing was checked'}"


def _counted(count: int, status: Status) -> str:
    """Return a count with its status as a word: `1 problem`, `2 problems` or `2 ok`."""
    is_noun = status in ("problem", "warning")
    return f"{count} {status}s" if is_noun and count != 1 else f"{count} {status}"


def summary(examined: Examined) -> dict[str, int]:
    """Return the number of checks by status. A status without checks has the number 0."""
    statuses: tuple[Status, ...] = ("ok", "warning", "problem", "unknown")
    counts = Counter(check.status for checks in examined.values() for check in checks)
    return {status: counts[status] for status in statuses}


def document(examined: Examined) -> dict[str, Any]:
    """Return the report as JSON-serializable data: a list of all checks, and a summary."""
    checks = [
        {"subject": subject, **asdict(check)}
        for subject, checks in examined.items()
        for check in checks
    ]
    return {"checks": checks, "summary": summary(examined)}
