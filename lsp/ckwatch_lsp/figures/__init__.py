"""What is known of a unit's performance, where it is looked at: hints, lenses, hovers, messages."""
