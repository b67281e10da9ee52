#!/bin/sh
# Starts a node on defaults, shows it the sample messages, and leaves it running.
# Usage: samples/run.sh PATH-OF-BULKHEAD
set -eu
umask 077 # doctor complains of files in the data folder that others may read

bulkhead=$1
samples=$(dirname "$0")
url=http://127.0.0.1:8420
data=bulkhead-data
log=$data/serve.log

step() { printf '\n== %s\n' "$1"; shift; echo "\$ bulkhead $*"; "$bulkhead" "$@" || test $? -le 2; }
ready() { grep -q 'msg=serving' "$log"; }
# runs PID: tells a node from a process that got its number. A minimal Debian has no ps, a Mac no /proc.
runs() {
	name=$(cat "/proc/$1/comm" 2>/dev/null || ps -o comm= -p "$1" 2>/dev/null)
	[ "$name" = "$(basename "$bulkhead" | cut -c 1-15)" ]
}
where() {
	cat <<END_OF_TEXT

$1 process $2:
    pages         $url
    log in there  $bulkhead login --data $data
    its log       $log
    stop it       kill $2
    forget it     rm -r $data, once it is stopped
END_OF_TEXT
}

if pid=$(cat "$data/serve.pid" 2>/dev/null) && runs "$pid"; then
	where "A node of this folder runs already," "$pid"
	exit 0
fi

known=
[ ! -d "$data/store" ] || known=yes
mkdir -p -m 0700 "$data"
echo "Starting a node, with its data in $data"
: >"$log" # of an earlier run: it would say that the node serves
"$bulkhead" serve --data "$data" >"$log" 2>&1 &
pid=$!
echo $pid >"$data/serve.pid"
tries=0
until ready; do
	tries=$((tries + 1))
	if ! kill -0 "$pid" 2>/dev/null || [ $tries -gt 300 ]; then
		echo "The node does not start:"
		cat "$log"
		kill "$pid" 2>/dev/null || true
		rm -f "$data/serve.pid"
		exit 1
	fi
	sleep 0.1
done
sed -n '/node is ready/,/administrator/p' "$log"

if [ -z "$known" ]; then
	step "Nobody has told the node anything yet" check "$samples/wave-1.eml" "$samples/newsletter.eml" "$samples/personal.eml"
	step "One recipient reports the first message of a wave" report "$samples/wave-1.eml"
	step "The other recipients' copies, none of which is the same, are suspected: one voice is no proof" check "$samples/wave-2.eml" "$samples/wave-3.eml"
	printf '\n== Ann, whom the administrator trusts, reports hers, too\n$ bulkhead user add ann --role trusted\n'
	(umask 077 && "$bulkhead" user add --data "$data" ann --role trusted >"$data/ann.token")
	step "... with the token that she was given" report --token-file "$data/ann.token" "$samples/wave-2.eml"
	step "The next copies are spam" check "$samples/wave-3.eml" "$samples/wave-4.eml"
	step "A mail server has seen the newsletter 40 times" report --vote sighting --count 40 "$samples/newsletter.eml"
	step "Somebody reports a wanted notice by mistake" report "$samples/revoked.eml"
	step "... and takes it back" revoke "$samples/revoked.eml"
fi
step "What the node says of all samples" check "$samples"
where "The node goes on running," "$pid"
