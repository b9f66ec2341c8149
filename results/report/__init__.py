"""A run's folder as one page to look at: read, drawn, told. Needs the folder alone, also a copied or an old one."""
