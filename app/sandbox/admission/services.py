"""The endpoints of Services, for webhooks: a call goes to a ready endpoint, as with kube-apiserver and
`--enable-aggregator-routing`. The sandbox does not create EndpointSlices.
"""

import itertools
from collections.abc import Iterator

from app.sandbox.objects.objects import Object, labels
from app.sandbox.storage.storage import Storage

_SERVICES, _SLICES = ("", "services"), ("discovery.k8s.io", "endpointslices")
_SERVICE_NAME = "kubernetes.io/service-name"


class Services:
    """The Services and EndpointSlices of a storage."""

    def __init__(self, storage: Storage) -> None:
        self._storage = storage
        self._turns = itertools.count()

    def address(self, namespace: str, name: str, port: int) -> str:
        """`<address>:<port>` of a ready endpoint, each time of the next one. Raises LookupError if there is none."""
        service = self._storage.get(_SERVICES, (namespace, name))
        if service is None:
            raise LookupError(f'service "{name}" not found')
        ports = [item for item in service["spec"].get("ports") or () if item["port"] == port]
        if not ports:
            raise LookupError(f'no service port {port} found for service "{name}"')
        addresses = list(self._ready(namespace, name, ports[0].get("name") or ""))
        if not addresses:
            raise LookupError(f'no endpoints available for service "{name}"')
        return addresses[next(self._turns) % len(addresses)]

    def _ready(self, namespace: str, name: str, port_name: str) -> Iterator[str]:
        for endpoints in self._storage.table(_SLICES).items(namespace):
            if labels(endpoints).get(_SERVICE_NAME) == name:
                yield from _addresses(endpoints, port_name)


def _addresses(endpoints: Object, port_name: str) -> Iterator[str]:
    ports = [item["port"] for item in endpoints.get("ports") or () if (item.get("name") or "") == port_name]
    for endpoint in endpoints.get("endpoints") or ():
        if (endpoint.get("conditions") or {}).get("ready") is not False:
            yield from (f"{endpoint['addresses'][0]}:{port}" for port in ports)
