"""Explain one object as a tree, from its PodCliqueSet to nodes, with the reasons why it is pending.

Its packages are, from the lowest layer to the highest: `state` (facts that were read), `placing`
(where pods fit), `gangs` (which pods must be placed together), `queue_order` (KAI's order),
`reasons`, `answers` and `output` (text and JSON). Only `state.read` and `live` do I/O.
"""
