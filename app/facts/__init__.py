"""What is kept of objects, however they were read. Imports only `objects`."""
