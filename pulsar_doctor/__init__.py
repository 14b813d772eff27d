"""pulsar-doctor: explains why an Apache Pulsar consumer is stuck, and what to do about it."""

__version__ = "0.2.0"
HOME_PAGE = ""  # not known yet; [project.urls] in pyproject.toml is the only other place for it
PAGES = ""  # before docs/ in links: not known yet, so they are paths in the repository
