"""`ckwatch bench --self-test`: the first thing to run on a device that nobody has tried."""
