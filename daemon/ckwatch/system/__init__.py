"""Services of the operating system for every room: processes that end with their parent, locks, durable files.

Nothing here knows what a kernel is. It stands below `workspace`, so that every room can use it.
"""
