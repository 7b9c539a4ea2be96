"""The questions that a daemon answers, each declared once; a module for each subject."""
