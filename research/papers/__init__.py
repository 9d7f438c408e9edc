"""Every figure and table of the central papers, one module each, through the product's own code."""
