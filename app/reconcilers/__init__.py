"""Level-driven loops: read the stores, ask app.rules what is desired, write the difference. Leader only."""
