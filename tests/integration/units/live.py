"""What the workloads of a namespace are, and whether everything of their units is as it should be."""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Iterable
from contextlib import asynccontextmanager, suppress

from app.facts.kinds import CLAIM_TEMPLATE, COMPUTE_DOMAIN, RESOURCE_CLAIM
from app.kube.api import ClusterError, Conflict, NotFound, Object, ObjectRef, Selection, every
from app.objects.owners import controller_of
from app.objects.resource import POD, Resource
from app.objects.shape import annotations_of, labels_of, maps_at
from app.stores.offline import resource_of
from tests.integration.system import Users, eventually
from tests.integration.units.controllers import NVIDIA_NAMESPACE, Controller
from tests.integration.units.kinds import Workload

PATIENCE = 240.0
PERIOD = 1.0
DAEMONS = f"/apis/apps/v1/namespaces/{NVIDIA_NAMESPACE}/daemonsets"
BLOCKER = "no-compute-domains"


class Live:
    """The workloads of `namespace`, as they were written last, and the `controllers` that run."""

    def __init__(self, clients: Users, namespace: str, controllers: list[Controller]) -> None:
        self.controllers = controllers
        self.workloads: dict[str, Workload] = {}
        self.seen: set[str] = set()
        """The uids of all Pods that were there when everything was as it should be."""
        self._others: set[str] = set()
        self._clients = clients
        self._admin = clients.admin
        self._namespace = namespace

    # What users do.

    async def create(self, workloads: Iterable[Workload]) -> None:
        for workload in workloads:
            self.workloads[workload.name] = workload
            for obj in workload.objects():
                await self._create(obj)

    async def _create(self, obj: Object) -> None:
        resource = resource_of(obj)
        assert resource is not None

        async def done() -> bool:
            try:
                await self._admin.create(resource, obj, self._namespace)
            except Conflict:
                return False  # the former one is still there
            return True

        await eventually(done, patience=PATIENCE)

    async def write(self, workload: Workload) -> None:
        """Write the spec as it is now."""
        for obj in workload.objects():
            resource = resource_of(obj)
            assert resource is not None
            if resource.kind == "PodGroup":
                continue  # it can't be changed
            ref = ObjectRef(resource, workload.name, self._namespace)
            spec = obj["spec"]
            if resource.kind == "Job":
                spec = {key: spec[key] for key in ("parallelism", "completions")}
            await self._admin.patch(ref, {"spec": spec})

    async def delete(self, workload: Workload, policy: str) -> None:
        for obj in reversed(workload.objects()):
            resource = resource_of(obj)
            assert resource is not None
            root = f"/apis/{obj['apiVersion']}/namespaces/{self._namespace}/{resource.plural}"
            path = f"{root}/{workload.name}?propagationPolicy={policy}"
            await self._clients.answer("admin", "DELETE", path)
        self.workloads.pop(workload.name, None)

    async def pods(self, workload: Workload | None = None) -> list[Object]:
        """The Pods that ask for MNNVL and are not ending, of one workload or of all."""
        return [
            pod
            for pod in await self._list(POD)
            if annotations_of(pod).get("grove.io/mnnvl-enabled")
            and "deletionTimestamp" not in pod["metadata"]
            and (workload is None or _name_of(pod).startswith(f"{workload.name}-"))
        ]

    async def delete_pods(self, names: Iterable[str]) -> None:
        for name in names:
            with suppress(NotFound):  # its controller may have been faster
                await self._admin.delete(ObjectRef(POD, name, self._namespace))

    async def delete_domains(self, names: list[str]) -> None:
        """Delete ComputeDomains, and wait until others of these names are there."""
        before = await self.domains()
        for name in names:
            await self._admin.delete(ObjectRef(COMPUTE_DOMAIN, name, self._namespace))

        def are_new(found: dict[str, str]) -> bool:
            return all(found.get(name, before[name]) != before[name] for name in names)

        await eventually(self.domains, are_new, patience=PATIENCE)

    @asynccontextmanager
    async def without_domains(self) -> AsyncIterator[None]:
        """While no ComputeDomain can be created: a webhook does not answer."""
        rule = {
            "apiGroups": ["resource.nvidia.com"],
            "apiVersions": ["*"],
            "operations": ["CREATE"],
            "resources": ["computedomains"],
        }
        webhook = {
            "name": "never.example.com",
            "admissionReviewVersions": ["v1"],
            "clientConfig": {"url": "https://127.0.0.1:9/"},
            "failurePolicy": "Fail",
            "sideEffects": "None",
            "timeoutSeconds": 1,
            "rules": [rule],
        }
        configuration = {
            "apiVersion": "admissionregistration.k8s.io/v1",
            "kind": "ValidatingWebhookConfiguration",
            "metadata": {"name": BLOCKER},
            "webhooks": [webhook],
        }
        await self._clients.api.apply([configuration])
        await eventually(lambda: self._is_blocked(blocked=True))
        resource = resource_of(configuration)
        assert resource is not None
        try:
            yield
        finally:
            await self._admin.delete(ObjectRef(resource, BLOCKER))
            await eventually(lambda: self._is_blocked(blocked=False))

    async def _is_blocked(self, *, blocked: bool) -> bool:
        spec = {"numNodes": 0, "channel": {"resourceClaimTemplate": {"name": "probe"}}}
        probe = {"metadata": {"name": "probe"}, "spec": spec}
        try:
            await self._admin.create(COMPUTE_DOMAIN, probe, "default")
        except ClusterError:
            return blocked
        await self._admin.delete(ObjectRef(COMPUTE_DOMAIN, "probe", "default"))
        return not blocked

    # What is seen.

    async def all_made(self) -> None:
        """Wait until all Pods are there with their entries, though not yet with their claims."""
        await self._until(self._problems_of_pods)

    async def settled(self, former: Collection[str] = ()) -> None:
        """Wait until everything is as it should be. `former` are uids of Pods that may have the
        claims of ComputeDomains that are gone.
        """
        await self._until(lambda: self._problems(former))
        self.seen |= await self.uids()

    async def uids(self) -> set[str]:
        """The uids of all Pods that are not ending."""
        return {pod["metadata"]["uid"] for pod in await self.pods()}

    async def _until(self, look: Callable[[], Awaitable[list[str]]]) -> None:
        async def seldom() -> list[str]:
            await asyncio.sleep(PERIOD)
            for controller in self.controllers:
                controller.check()
            return await look()

        await eventually(seldom, lambda found: not found, patience=PATIENCE)

    async def all_domains(self) -> None:
        """Wait until all units have their ComputeDomain."""
        units = {unit for workload in self.workloads.values() for unit in workload.units()}
        await eventually(self.domains, lambda found: {f"{u}-cd" for u in units} <= found.keys())

    async def domains(self) -> dict[str, str]:
        """The uid of each ComputeDomain."""
        return {_name_of(obj): obj["metadata"]["uid"] for obj in await self._list(COMPUTE_DOMAIN)}

    async def _problems_of_pods(self) -> list[str]:
        expected = Counter[str]()
        for workload in self.workloads.values():
            expected.update(workload.units())
        found = Counter[str]()
        problems: list[str] = []
        for pod in await self.pods():
            unit = self._unit_of(pod)
            found[unit] += 1
            entry = {"name": "mnnvl", "resourceClaimTemplateName": f"{unit}-mnnvl-template"}
            if pod["spec"].get("resourceClaims") != [entry]:
                problems.append(f"{_name_of(pod)} has {pod['spec'].get('resourceClaims')}")
            if any(
                c["resources"].get("claims") != [{"name": "mnnvl"}]
                for c in pod["spec"]["containers"]
            ):
                problems.append(f"{_name_of(pod)} has a container without the claim")
            if labels_of(pod).get("grove.io/mnnvl-unit") != unit:
                problems.append(f"{_name_of(pod)} has the label of another unit than {unit}")
        for unit in sorted(expected.keys() | found.keys()):
            if expected[unit] != found[unit]:
                problems.append(f"{unit} has {found[unit]} Pods and not {expected[unit]}")
        return problems

    def _unit_of(self, pod: Object) -> str:
        workload = self.workloads.get(_name_of(pod).split("-")[0])
        return workload.unit_of(_name_of(pod)) if workload else "no unit"

    async def _problems(self, former: Collection[str]) -> list[str]:
        problems = await self._problems_of_pods()
        domains = {_name_of(obj): obj for obj in await self._list(COMPUTE_DOMAIN)}
        units = {unit for workload in self.workloads.values() for unit in workload.units()}
        if domains.keys() != {f"{unit}-cd" for unit in units}:
            different = sorted(domains.keys() ^ {f"{unit}-cd" for unit in units})
            problems.append(f"missing or needless ComputeDomains: {different}")
        owners = await self._owners()
        problems += [
            f"{name} has the owners {obj['metadata'].get('ownerReferences')}"
            for name, obj in domains.items()
            if [o["uid"] for o in maps_at(obj, "metadata", "ownerReferences")]
            != [owners.get(self._owner_of(name), "unknown")]
        ]
        uids = {name: obj["metadata"]["uid"] for name, obj in domains.items()}
        templates = await self._list(CLAIM_TEMPLATE)
        problems += [
            f"{_name_of(obj)} is of another ComputeDomain"
            for obj in templates
            if _domain_of(obj["spec"]["spec"])
            != uids.get(f"{_name_of(obj).removesuffix('-mnnvl-template')}-cd")
        ]
        if len(templates) != len(domains):
            problems.append(f"{len(templates)} templates of {len(domains)} ComputeDomains")
        return problems + await self._problems_of_claims(uids, former)

    async def _problems_of_claims(
        self, domains: dict[str, str], former: Collection[str]
    ) -> list[str]:
        """Each Pod has a claim of its own, for the ComputeDomain of its unit, and runs with it."""
        claims = {_name_of(obj): obj for obj in await self._list(RESOURCE_CLAIM)}
        problems: list[str] = []
        for pod in await self.pods():
            name = _name_of(pod)
            statuses = maps_at(pod, "status", "resourceClaimStatuses")
            named = [claims.get(str(status.get("resourceClaimName"))) for status in statuses]
            claim = named[0] if len(named) == 1 else None
            owner = None if claim is None else controller_of(claim)
            if claim is None or owner is None or owner.uid != pod["metadata"]["uid"]:
                problems.append(f"{name} has no claim of its own")
                continue
            is_former = owner.uid in former
            if not is_former and _domain_of(claim["spec"]) != domains.get(
                f"{self._unit_of(pod)}-cd"
            ):
                problems.append(f"{name} has the claim of another ComputeDomain")
            if pod["status"]["phase"] != "Running":
                problems.append(f"{name} is {pod['status']['phase']}")
        if len(claims) != len(await self.pods()):
            problems.append(f"{len(claims)} claims")
        return problems

    async def _owners(self) -> dict[str, str]:
        """The uid of each workload that is not being deleted."""
        resources = {workload.resource for workload in self.workloads.values()}
        return {
            _name_of(obj): obj["metadata"]["uid"]
            for resource in resources
            for obj in await self._list(resource)
            if "deletionTimestamp" not in obj["metadata"]
        }

    def _owner_of(self, domain: str) -> str:
        unit = domain.removesuffix("-cd")
        return next((w.name for w in self.workloads.values() if unit in w.units()), "")

    async def left(self) -> list[str]:
        """What there still is of all that was ever made."""
        return sorted(await self._existing() - self._others)

    async def begin(self) -> None:
        """Leave out what there is already."""
        self._others = await self._existing()

    async def _existing(self) -> set[str]:
        resources = (POD, COMPUTE_DOMAIN, CLAIM_TEMPLATE, RESOURCE_CLAIM)
        left = [
            f"{resource.kind} {_name_of(obj)}"
            for resource in resources
            for obj in await self._list(resource)
        ]
        daemons = (await self._clients.answer("admin", "GET", DAEMONS)).json()["items"]
        left += [f"DaemonSet {_name_of(obj)}" for obj in daemons]
        templates = await self._admin.list(Selection(CLAIM_TEMPLATE, NVIDIA_NAMESPACE))
        left += [f"template {_name_of(obj)}" for obj in templates.items]
        return set(left)

    async def _list(self, resource: Resource) -> list[Object]:
        try:
            return await every(self._admin, Selection(resource, self._namespace))
        except NotFound:
            return []


def _name_of(obj: Object) -> str:
    return str(obj["metadata"]["name"])


def _domain_of(spec: Object) -> str:
    """The uid of the ComputeDomain that the spec of a claim names."""
    (config,) = spec["devices"]["config"]
    return str(config["opaque"]["parameters"]["domainID"])
