"""All certificate code: making, judging, rotating, serving and publishing certificates."""
