"""Form gangs, which are pods that must be placed together, and find the gangs of an object."""
