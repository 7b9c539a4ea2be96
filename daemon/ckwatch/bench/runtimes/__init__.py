"""Device runtimes: one module per kind of device, imported when a job asks for that kind; `device_runtime` is what they have in common."""
