"""What is kept of the objects of NVIDIA's DRA driver."""
