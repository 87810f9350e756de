"""Level-driven loops: read the stores, ask app.domain what is desired, write the difference. Leader only."""
