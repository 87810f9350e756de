"""Why a gang waits, or is not placed as asked: one function for each reason, by topic."""
