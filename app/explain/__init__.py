"""One object as a tree, from its PodCliqueSet to nodes, with the reasons why it waits.

It has six rooms, and each uses only those before it: `known` (what was read), `placing` (where pods
fit), `gangs` (what must be placed together), `reasons`, `answers` and `shown` (text and maps). All
but `known.read`, which asks a cluster, is pure.
"""
