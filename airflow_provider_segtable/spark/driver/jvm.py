"""JVM flags for drivers on this machine.

They apply when the JVM starts, so spark-submit needs them on its command line. Segtable's drivers
live for seconds and move files, not rows: a fast start matters more than optimised code.
"""

SHORT_LIVED_DRIVER = {
    "spark.driver.extraJavaOptions": "-XX:+UseSerialGC -XX:TieredStopAtLevel=1",
}
