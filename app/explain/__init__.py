"""One object as a tree, from its PodCliqueSet to nodes, with the reasons why it waits and what helps.

Pure: `facts` (what is kept of objects, and how it is read from them), `index` (joins), `gang` (what must be placed
together), `domains` and `room` (where it fits), `reasons`, `tree`, `answer`, `topology` and `preview`.
`read` lists each kind once, `text` and `json` render.
"""
