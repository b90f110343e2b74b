"""Commands that check and mend: doctor, verify and repair."""
