#!/bin/sh
# smoke.sh FORMAT: does the consumer acknowledge all messages? Without settings: `python my_consumer.py`, 200 messages.
set -eu
export PULSAR_DOCTOR_SANDBOX=1
export TOPIC="smoke-$$"
rm -rf smoke.ptrace
pulsar-doctor -q sandbox status >&2 || trap 'pulsar-doctor sandbox stop >&2' EXIT  # only its own
pulsar-doctor sandbox start >&2
pulsar-doctor produce "$TOPIC" -n "${MESSAGES:-200}" -s "${SUBSCRIPTION:-billing}" >&2
pulsar-doctor tap -o "${1:-github}" --listen 127.0.0.1:0 --trace smoke.ptrace --for "${RUN_FOR:-30s}" \
  --expect-consumers 1 --expect-acked all --expect-within "${WITHIN:-20s}" -- sh -c "exec ${CONSUMER:-python my_consumer.py}"
