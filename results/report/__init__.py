"""Shows a run's folder as one HTML page of figures and tables. It needs only the folder, even a copied or old one."""
