"""`pulsar-doctor` and `python -m pulsar_doctor`."""

from pulsar_doctor.cli import main

if __name__ == "__main__":
    main()
