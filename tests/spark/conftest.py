"""One Spark session for all tests: to start it takes longer than they do."""

from collections.abc import Iterator

import pytest
from pyspark.sql import SparkSession

from groupcomm_spark.session import open_session


@pytest.fixture(scope="session")
def spark() -> Iterator[SparkSession]:
    few = {"spark.sql.shuffle.partitions": "2"}  # there are few rows
    session = open_session("local[2]", name="groupcomm tests", config=few)
    yield session
    session.stop()
