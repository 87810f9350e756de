"""Find out where pods fit: demands, the nodes that may take them, and how KAI places them."""
