#!/bin/sh
# Starts a node on defaults, shows it the sample messages, and leaves it running.
# Usage: samples/run.sh PATH-OF-BULKHEAD
set -eu

bulkhead=$1
samples=$(dirname "$0")
url=http://127.0.0.1:8420
data=bulkhead-data

step() { printf '\n== %s\n' "$1"; shift; echo "\$ bulkhead $*"; "$bulkhead" "$@" || test $? -eq 1; }
ready() { grep -q 'msg=serving' "$data/serve.log"; }

mkdir -p -m 0700 "$data"
"$bulkhead" serve --data "$data" >"$data/serve.log" 2>&1 &
pid=$!
tries=0
until ready; do
	tries=$((tries + 1))
	if ! kill -0 "$pid" 2>/dev/null || [ $tries -gt 300 ]; then
		echo "The node does not start:"
		cat "$data/serve.log"
		exit 1
	fi
	sleep 0.1
done
sed -n '/node is ready/,/administrator/p' "$data/serve.log"

step "Nobody has told the node anything yet" check "$samples/wave-1.eml" "$samples/newsletter.eml" "$samples/personal.eml"
step "One recipient reports the first message of a wave" report "$samples/wave-1.eml"
step "The other recipients' copies, none of which is the same, are recognised" check "$samples/wave-2.eml" "$samples/wave-3.eml" "$samples/wave-4.eml"
step "A mail server has seen the newsletter 40 times" report --vote sighting --count 40 "$samples/newsletter.eml"
step "Somebody reports a wanted notice by mistake" report "$samples/revoked.eml"
step "... and takes it back" revoke "$samples/revoked.eml"
step "What the node says of all samples" check "$samples"

cat <<END

The node goes on running, process $pid:
    status page   $url
    its log       $data/serve.log
    stop it       kill $pid
END
