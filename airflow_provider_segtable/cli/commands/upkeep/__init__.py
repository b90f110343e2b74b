"""Commands of maintenance: plan, compact and clean."""
