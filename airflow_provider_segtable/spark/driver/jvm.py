"""JVM flags for drivers on this machine.

They must be given when the JVM starts, so spark-submit needs them on its command line. Our drivers
live for seconds and move files, not rows: starting fast matters more than the last optimiser.
"""

SHORT_LIVED_DRIVER = {
    "spark.driver.extraJavaOptions": "-XX:+UseSerialGC -XX:TieredStopAtLevel=1",
}
