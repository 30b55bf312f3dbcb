#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# weft: needs=!nvidia-smi seconds=30
# nvidia-smi: the summary, the list, queries.
fail() { echo "FAIL nvidia_smi: $*"; exit 1; }
nvidia-smi >/dev/null || fail "status $? of the summary"
nvidia-smi | grep -q "Driver Version" || fail "no driver version"
nvidia-smi -L | grep -q "^GPU 0: .*UUID" || fail "list: $(nvidia-smi -L)"
q=$(nvidia-smi --query-gpu=name,memory.total,memory.used,driver_version,compute_cap \
	--format=csv,noheader) || fail "query: $q"
echo "$q" | grep -q "MiB" || fail "query: $q"
nvidia-smi -q >/dev/null || fail "status $? of -q"
nvidia-smi --query-compute-apps=pid,used_memory --format=csv >/dev/null || fail "processes"
echo "ok nvidia_smi $q"
