"""A lake of many tables under one set of DAGs, and kills: ``make fleet``."""
