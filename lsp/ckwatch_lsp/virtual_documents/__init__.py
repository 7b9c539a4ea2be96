"""Virtual documents: the rendered source and the ISA of a unit, linked with the template both ways."""
