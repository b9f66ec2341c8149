"""Traffic that goes by itself: programs that run on hosts inside a worker, and meet only over the fabric."""
