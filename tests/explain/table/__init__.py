"""The table of reasons: for each, states in which it holds, and states that just miss it."""
