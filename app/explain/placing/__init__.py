"""Find out where pods fit, as KAI places them."""
