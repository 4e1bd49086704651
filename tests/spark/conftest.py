"""One Spark session for all tests: to start it takes longer than they do."""

from collections.abc import Iterator

import pytest
from pyspark.sql import SparkSession

from groupcomm_spark.session import open_session


@pytest.fixture(scope="session")
def spark() -> Iterator[SparkSession]:
    session = open_session("local[2]", name="groupcomm tests")
    yield session
    session.stop()
