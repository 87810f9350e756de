"""The fields that are kept of Grove's objects, in the form of the designs and of each release."""
