#!/usr/bin/env bash
# Runs every test: unit, property and end-to-end, with real llama.cpp, real adb and ssh daemons.
# Extra arguments go to cargo test, for example: scripts/test.sh --test e2e adb::
set -euo pipefail
cd "$(dirname "$0")/.."

scripts/setup.sh
model=$(scripts/fetch-model.sh)
echo "test: model $model"
# None may be skipped.
export OPPTUNE_TEST_ALL=1
cargo test --features llama,ssh "$@"
