"""What all tests share."""

from hypothesis import settings

# Tests run in parallel: how long one example takes says more about the machine than about the code.
settings.register_profile("parallel", deadline=None)
settings.load_profile("parallel")
