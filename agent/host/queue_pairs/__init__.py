"""Queue pairs made from settings: their EV profiles, denied links, probes, announcements."""
