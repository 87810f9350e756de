"""Explain workloads: where their pods are, and why pods are pending.

The packages are, from the lowest layer to the highest: `state` (facts that were read), `placing`
(where pods fit), `gangs` (which pods must be placed together), `queue_order` (KAI's order),
`reasons`, `answers` and `output` (text and JSON). Only `state.read` and `live` do I/O.
"""
