"""A local web page on loopback.

It uses the same rules and readers as the commands, and writes nothing.

app: token, server, the file that opens the browser | routes, and the order of the pages | guard:
who may ask | page: the form of a page | live: one list and watch of each kind | events: what has
changed, for open tabs | rendering: templates | source: lines and differences of documents |
listing: the list of what waits | map: the map of a topology | one file per page: workloads,
topology, queues, findings, playground, what_if, stored (the page of
an object).
"""
