"""Show the page of a stored object: its YAML, its events, and kubectl commands for it.

The object is read on request, with the user's permissions, and only if the console reads its kind.
Secrets and ConfigMaps are never read.
"""

import shlex
from collections.abc import Sequence

import yaml

from app.console.page import ConsolePage, Query, Values, reference
from app.explain.state.index import Index
from app.explain.state.snapshot import OF_KIND
from app.facts.identity import Ref
from app.facts.kubernetes.event import Event
from app.kube.api import ClusterError, NotFound, Object, ObjectRef, Reader
from app.objects.resource import EVENT, Resource
from app.stores.related_lists import ASKED

MOST_EVENTS = 50
"""The maximum number of events on the page."""
KINDS = {kind: resource for kind, resource in OF_KIND.items() if resource is not EVENT}
"""The resource of each kind whose objects can be shown."""


async def read_stored(client: Reader, query: Query) -> Values:
    """Read the object that the query names, and return the values of the template about it.

    If the object can't be read, return only a `problem`.
    """
    ref = reference(query.get("object", ""), KINDS)
    if not ref:
        words = "The address does not name an object of a kind that the console reads"
        return {"problem": f"{words} (?object=KIND/NAMESPACE/NAME)."}

    resource = KINDS[ref.kind]
    try:
        obj = await client.get(ObjectRef(resource, ref.name, ref.namespace or None))
    except NotFound:
        return {"problem": "The object does not exist."}
    except ClusterError as problem:
        if problem.code != 403:
            return {"problem": f"The object cannot be read: {problem}"}
        where = f" in namespace {ref.namespace}" if ref.namespace else ""
        return {"problem": f"You have no permission to get {resource}{where}."}

    uid = str(obj["metadata"].get("uid", ""))
    return {"yaml": _yaml(obj, resource), "namespace": ref.namespace, "uid": uid}


def _yaml(obj: Object, resource: Resource) -> str:
    """Return an object as `kubectl get -o yaml` prints it, without managedFields."""
    metadata = {name: value for name, value in obj["metadata"].items() if name != "managedFields"}
    full = {"apiVersion": resource.api_version(), "kind": resource.kind, **obj}
    return yaml.safe_dump({**full, "metadata": metadata}, sort_keys=False, allow_unicode=True)


def read(index: Index, query: Query) -> Values:
    """Return the values of the page's template that do not depend on the stored object."""
    text = query.get("object", "")
    ref = reference(text, KINDS)
    return {
        "name": f"{ref.kind} {ref.name}" if ref else text or "No object",
        "namespace": ref.namespace if ref else "",
        "commands": _commands(ref) if ref else (),
        "object": text,
        "explained": ref is not None and ref.kind in ASKED,
        "options": {"object": ref is not None},
        "problem": "",
        "yaml": "",
        "events": [],
    }


def _commands(ref: Ref) -> list[str]:
    """Return the kubectl commands that show the object `ref`: get and describe."""
    resource = KINDS[ref.kind]
    where = ["-n", ref.namespace] if ref.namespace else []
    name = [str(resource), ref.name]
    get = ["kubectl", "get", *where, *name, "-o", "yaml"]
    return [shlex.join(get), shlex.join(["kubectl", "describe", *where, *name])]


def events_of(index: Index, namespace: str, uid: str) -> Sequence[Event]:
    """Return the newest MOST_EVENTS events about the object with this uid, newest first.

    Return () if `uid` is "".
    """
    return index.events_about(namespace, uid)[:MOST_EVENTS] if uid else ()


PAGE = ConsolePage("object", "Object", read, watched=False)
