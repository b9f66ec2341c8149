"""Statistical tests of packet counts, with their error probabilities."""
