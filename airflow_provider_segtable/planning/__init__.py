"""DECIDES the work: pure functions from state, policy and time to a plan with reasons."""
