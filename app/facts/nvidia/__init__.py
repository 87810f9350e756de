"""Read the objects of NVIDIA's DRA driver."""
