"""Features of a set of Composable Kernel's headers, read from the headers: no compiler runs.

A version says nothing: Composable Kernel has called itself 1.2.0 for a year. So no version is compared. Templates,
checks and rules ask for a feature by its name (`features`); a `SearchedHeaders` reads the header in question and
answers.
"""
