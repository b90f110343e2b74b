"""How the candidates of each kind of plan are found: one module a kind."""
