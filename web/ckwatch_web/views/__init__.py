"""The views: what each shows, as data made from what the client says."""
