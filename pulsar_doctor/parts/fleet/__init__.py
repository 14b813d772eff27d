"""Records what a watch of the fleet sees, and answers questions on weeks of it, with Spark."""
