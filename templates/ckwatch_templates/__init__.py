"""The built-in kernel templates, shipped as package data."""

from pathlib import Path

ROOT = Path(__file__).resolve().parent
"""Folder that holds the built-in templates; the last entry of every template search path."""
