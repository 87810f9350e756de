"""Read Kubernetes objects, and keep only the fields that this program needs.

A kind has a second reader only where a measurement justifies it. `./scripts/bench readers` measures
how many bytes of memory one object takes in each form. These are the numbers of 2026-11-28:

    kind            server or leader                explanations
    Node            393 (NodeLabels)                929
    Pod             631 (leader_rows)               1,013
    PodClique       187 (leader_rows)               299
    PodGang         534 (StoredGang)                1,043
    PodCliqueSet    737                             817 (SetWithStatus)
    of a request    2,546 (template)

A server keeps only its own condition from the status of a PodCliqueSet. With the whole status, it
would reconcile after each change that Grove writes. The PodCliqueSet of a request has the path of
each part, for findings. MnnvlResource has the owners of our ComputeDomains and ResourceClaims, but
not their devices. A server keeps only the names of Queues, PriorityClasses and DeviceClasses, and
only the number of GPUs in a ResourceSlice. The leader keeps Workloads and PodGroups as JSON,
because it creates KAI's PodGroups from their metadata.

Large objects are decoded by TypedDicts, which only choose fields, such as those in `review_fields`
and `pod_fields`. They are not decoded as structs: anybody may write these objects, and a struct
rejects the whole object if one field has another type.
"""
