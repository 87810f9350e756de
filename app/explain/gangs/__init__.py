"""What must be placed together, and which gangs an object belongs to."""
