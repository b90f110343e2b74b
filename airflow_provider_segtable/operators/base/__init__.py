"""What all operators share: how work reaches Spark, how fields are rendered, and who is named as the author."""
