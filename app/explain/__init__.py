"""One object as a tree, from its PodCliqueSet to nodes.

It has the reasons why the object waits, and what helps.

Pure: `facts` (what is kept of objects, and where in them it is read), `index` (joins), `assembly`
and `gang` (what must be placed together), `room` and `places` (where it fits), `reasons`, `tree`,
`answer`, `topology` and `preview`. `read` lists each kind once, `text` and `json` render.
"""
