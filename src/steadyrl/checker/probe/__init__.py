"""What plays an environment and writes down what happened; it judges nothing."""
