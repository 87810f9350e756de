"""Read Grove's objects, in the forms of the designs and of each release."""
