"""pulsar-doctor: says why an Apache Pulsar consumer stands still, and what to do."""

__version__ = "0.1.0"
HOME_PAGE = ""  # not known yet; [project.urls] in pyproject.toml is the only other place for it
