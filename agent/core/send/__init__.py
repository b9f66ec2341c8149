"""What the send half of a queue pair does: messages to packets, acknowledgements, losses, resends."""
