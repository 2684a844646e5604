"""The event log and its transaction: one contract, kept by each database."""
