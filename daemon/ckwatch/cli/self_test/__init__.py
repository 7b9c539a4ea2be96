"""`ckwatch bench --self-test`: the first thing to run on a device that was never tried."""
