#!/bin/bash -eu
# Compiles every fuzz test of the tree for libFuzzer, in the builder of OSS-Fuzz. A fuzzer's name is its
# folder and test. The builder's own compile_native_go_fuzzer_v2 looks for the name of a test in all files
# below its folder, and compiles nothing where several contain it, so the function behind it is called here.
source "$(dirname "$(command -v compile_native_go_fuzzer_v2)")/go_utils.sh"

"$SRC/bulkhead/packaging/fuzz-list" | while read -r dir name; do
	fuzzer=$(echo "$dir-$name" | sed 's|^\./||; s|[/.]|_|g')
	# build_native_go_fuzzer reads these two as well.
	abs_file_dir=$(realpath "$SRC/bulkhead/$dir")
	fuzzer_filename=$(grep -l "^func $name(f \*testing.F)" "$abs_file_dir"/*_test.go)
	(
		cd "$(go -C "$abs_file_dir" list -m -f '{{.Dir}}')"
		go get github.com/AdamKorcz/go-118-fuzz-build/testing
		build_native_go_fuzzer "$fuzzer" "$name" "$abs_file_dir" "$(go -C "$abs_file_dir" list)"
	) </dev/null
	[ -s "$OUT/$fuzzer" ] || { echo "no $fuzzer" >&2; exit 1; }
	echo "compiled $fuzzer"
done
