"""Device runtimes: one module per kind of device, imported when a job asks for it; they share `device_runtime`."""
