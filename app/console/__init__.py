"""The console: a local web page on loopback.

It uses the same rules and readers as the commands, and never writes.

app: token, server, the file that opens the browser | routes, and the order of the pages | guard:
which requests are allowed | page: the form of a page | live: one list and watch of each kind |
events: revisions for open tabs | rendering: templates | source: lines and differences of documents
| listing: the list of workloads | map: the map of a topology | one file per page: workloads,
topology, queues, findings, playground, what_if, stored (the page of an object).
"""
