"""What the log leaves out."""

from treetop.core.log import each_once, logger


def test_a_warning_is_shown_once_inside_the_block_and_other_lines_as_often_as_they_come(caplog):
    caplog.set_level("INFO", logger.name)
    with each_once():
        for number in range(3):
            logger.warning("%s: no words", "data")
            logger.warning("number %d", number)
            logger.info("a line")
            with each_once():
                logger.warning("%s: no words", "data")
    logger.warning("data: no words")
    said = [record.getMessage() for record in caplog.records]
    assert said.count("data: no words") == 2 and said.count("a line") == 3
    assert [f"number {number}" for number in range(3)] == [line for line in said if line.startswith("number")]
