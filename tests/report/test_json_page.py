"""docs/json.md lists the numbers as the code has them."""

from __future__ import annotations

from tests.report.json_page import PAGE, page


def test_the_page_is_made_anew_with_python_m_tests_report_json_page() -> None:
    assert PAGE.read_text("utf-8") == page()
