"""What is kept of Grove's objects, in the form of the designs and in that of each release."""
