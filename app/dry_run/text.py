"""Judgements as text for people."""

from collections.abc import Sequence

from app.admission.review import dumps
from app.dry_run.judge import Judgement, identify
from app.objects.fields import FieldError, FieldPath


def describe(judgement: Judgement) -> Sequence[str]:
    """The judgement as lines for a person."""
    api_version, kind, namespace, name = identify(judgement.document)
    what = f"{kind or 'document'} {namespace + '/' if namespace else ''}{name or '(no name)'}"
    verdict = judgement.verdict
    if verdict is None:
        asked = f"the {judgement.operation} of " if judgement.operation else ""
        return [f"-        {what}: no webhook looks at {asked}{api_version or 'this'} {kind}".rstrip()]
    mark = {"allowed": "ALLOWED", "patched": "PATCHED", "refused": "REFUSED", "failed": "FAILED "}[verdict.outcome]
    code = "" if verdict.allowed else f" ({verdict.code} {verdict.reason})"
    lines = [f"{mark}  {what}{code}"]
    lines += [f"           {_with_field(cause)}" for cause in verdict.causes] or (
        [f"           {verdict.message}"] * (not verdict.allowed)
    )
    lines += [f"           warning: {warning}" for warning in verdict.warnings]
    for operation in verdict.patch:
        value = f" = {dumps(operation['value']).decode()}" if "value" in operation else ""
        lines.append(f"           {operation['op']:7} {_readable(operation['path'])}{value}")
    for effect in verdict.effects:
        made = effect.object
        metadata = made["metadata"]
        verb = "would create" if effect.action == "create" else "would adopt"
        lines.append(f"           {verb} {made['kind']} {metadata['namespace']}/{metadata['name']}")
    return lines


def _with_field(cause: FieldError) -> str:
    """Some findings are in a document's own words, which don't say where."""
    return f"{cause.field}: {cause.text}" if cause.text else str(cause)


def _readable(pointer: str) -> str:
    """A JSON pointer as a field path."""
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
