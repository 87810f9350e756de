"""The fields that are kept of the objects of NVIDIA's DRA driver."""
