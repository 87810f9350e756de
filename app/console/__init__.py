"""Serve the console: a local web page on loopback.

The console uses the same rules and readers as the commands, and never writes. There is a module for
each page: `workloads`, `topology`, `queues`, `findings`, `playground`, `what_if`, and `stored` for
the page of an object. The other modules are:

- app: the running console: its token, server and background tasks
- settings: the options of the command
- routes: the paths, and the order of the pages
- guard: which requests are allowed
- connections: limits on connections and on the heads of requests
- page, rendering: the definition of a page, and the templates
- events: messages that let open tabs fetch their page again
- listing: the list of workloads, which pages share
- map, colours: the map of a topology
- source: lines, differences and Secrets in documents
"""
