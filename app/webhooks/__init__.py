"""Connect admission requests with the rules: one thin adapter per row of the webhook table.

Each adapter reads facts, calls rules and returns a verdict. `registry` has the table. The webhook
configurations and the admission policies are built here too.
"""
