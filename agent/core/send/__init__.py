"""Send half of a queue pair: segmentation, acknowledgements, loss detection, retransmission."""
