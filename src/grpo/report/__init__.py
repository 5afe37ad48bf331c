"""What a sweep has shown, from its run folders alone."""
