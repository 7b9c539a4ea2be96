"""`ckwatch import`: kernel files from CK's lists of instances and HIP sources, templates out of Python."""
