"""Fill typed stores for the rows of `facts/rows`, by watches, by lists or from documents."""
