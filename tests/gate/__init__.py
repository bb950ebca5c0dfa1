"""Evidence for the gate: `simulation` draws nights, `proof` plants losses in a real server."""
