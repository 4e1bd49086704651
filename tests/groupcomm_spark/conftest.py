"""One Spark session for all tests: to start it takes longer than they do."""

from collections.abc import Iterator

import pytest
from pyspark.sql import SparkSession

from groupcomm_spark.session import QUIET, open_session

FEW_ROWS = {
    "spark.sql.shuffle.partitions": "1",
    "spark.default.parallelism": "2",
    # To compile well takes longer than all of these tests need: neither Spark compiles queries,
    # nor Java what it runs often; nor does Java verify the classes of Spark. It has room for these
    # classes, and for what queries leave behind, so that it seldom collects garbage.
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
    "spark.driver.extraJavaOptions": f"{QUIET} -XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
    " -XX:MetaspaceSize=256m -Xms768m -Xmn512m"
    " -XX:+UnlockDiagnosticVMOptions -XX:-BytecodeVerificationRemote",
}


@pytest.fixture(scope="session")
def spark() -> Iterator[SparkSession]:
    session = open_session("local[1]", name="groupcomm tests", config=FEW_ROWS)
    yield session
    session.stop()
