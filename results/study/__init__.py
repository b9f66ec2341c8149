"""Makes tidy tables of a study's runs, and figures of them."""
