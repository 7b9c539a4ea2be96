"""Answers clients' questions from the state, the store and the history: one module for each question."""
