"""JVM flags for drivers on this machine.

They apply when the JVM starts, so spark-submit needs them on its command line. Segtable's drivers
live for seconds and move files, not rows: a fast start matters more than optimised code. Without
optimised code a JVM reserves 48 MiB for compiled code, which a session that lives for minutes
fills: it would discard and compile again. So it gets as much as it has by default.
"""

SHORT_LIVED_DRIVER = {
    "spark.driver.extraJavaOptions": "-XX:+UseSerialGC -XX:TieredStopAtLevel=1 "
    "-XX:ReservedCodeCacheSize=240m",
}
