"""Pure rules: no IO, no clock, no randomness, no logging. What two callers share lives here once."""
