#!/bin/bash -eu
# Compiles every fuzz test of the tree for libFuzzer, in the builder of OSS-Fuzz. A fuzzer's name is its
# folder and test.
cd "$SRC/bulkhead"

packaging/fuzz-list | while read -r dir name; do
	module=$(go -C "$dir" list -m)
	root=$(go -C "$dir" list -m -f '{{.Dir}}')
	(
		cd "$root"
		go get github.com/AdamKorcz/go-118-fuzz-build/testing
		compile_native_go_fuzzer "$(go -C "$SRC/bulkhead/$dir" list)" "$name" "$(echo "$dir-$name" | sed 's|^\./||; s|[/.]|_|g')"
	)
	echo "compiled $name of $module"
done
