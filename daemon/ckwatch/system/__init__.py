"""What every room needs of the operating system: processes that end with their parent, locks, durable files.

Nothing here knows what a kernel is. It stands below `workspace`, so that every room can use it.
"""
