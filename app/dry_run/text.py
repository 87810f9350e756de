"""Judgements as text for people."""

from collections.abc import Sequence

from app.admission.review import dumps
from app.dry_run.judge import Judgement, identify
from app.objects.fields import FieldError, FieldPath


def describe(judgement: Judgement) -> Sequence[str]:
    """Returns the judgement as lines for people."""
    api_version, kind, namespace, name = identify(judgement.document)
    title = f"{kind or 'document'} {namespace + '/' if namespace else ''}{name or '(no name)'}"
    verdict = judgement.verdict
    if verdict is None:
        operation_of = f"the {judgement.operation} of " if judgement.operation else ""
        return [f"-        {title}: no webhook looks at {operation_of}{api_version or 'this'} {kind}".rstrip()]
    mark = {"allowed": "ALLOWED", "patched": "PATCHED", "refused": "REFUSED", "failed": "FAILED "}[verdict.outcome]
    code = "" if verdict.allowed else f" ({verdict.code} {verdict.reason})"
    lines = [f"{mark}  {title}{code}"]
    lines += [f"           {with_field(cause)}" for cause in verdict.causes] or (
        [f"           {verdict.message}"] * (not verdict.allowed)
    )
    lines += [f"           warning: {warning}" for warning in verdict.warnings]
    for operation in verdict.patch:
        value = f" = {dumps(operation['value']).decode()}" if "value" in operation else ""
        lines.append(f"           {operation['op']:7} {_readable(operation['path'])}{value}")
    for effect in verdict.effects:
        kind, metadata = effect.object["kind"], effect.object["metadata"]
        verb = "would create" if effect.action == "create" else "would adopt"
        lines.append(f"           {verb} {kind} {metadata['namespace']}/{metadata['name']}")
    return lines


def with_field(cause: FieldError) -> str:
    """Returns the finding with its field, which is missing in the texts of some findings."""
    return f"{cause.field}: {cause.text}" if cause.text else str(cause)


def _readable(pointer: str) -> str:
    """Returns a JSON pointer as a field path."""
    path = FieldPath("")
    for step in pointer.split("/")[1:]:
        name = step.replace("~1", "/").replace("~0", "~")
        if name.isdecimal():
            path = path.index(int(name))
        elif name == "-":
            path = path.key("+")
        else:
            path = path.key(name) if "/" in name else path.child(name)
    return str(path)
