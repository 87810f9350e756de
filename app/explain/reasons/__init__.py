"""Find the reasons why a gang is pending or not placed as requested, each with a function."""
