"""Execution of trials: what runs one trial, where it runs, and what it returns. Independent of the database."""
