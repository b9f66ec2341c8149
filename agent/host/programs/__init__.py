"""Programs that generate traffic on hosts inside a worker; they coordinate only over the fabric."""
