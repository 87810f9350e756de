"""The measurements that `./scripts/bench` starts, a file for each, and what they share."""
