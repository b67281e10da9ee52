#!/bin/sh
# Writes domains.txt: the domains that the rules of SpamAssassin and rspamd, as Debian packages them,
# exempt from lists of links or know as redirectors. Needs apt and network. Run by "make wellknown".
set -eu
cd "$(dirname "$0")"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
(cd "$work" && apt-get -qq download rspamd spamassassin && for p in *.deb; do dpkg -x "$p" root; done)
maps=$work/root/etc/rspamd/maps.d
{
	cat "$maps/surbl-whitelist.inc" "$maps/redirectors.inc"
	sed -n 's/^[[:space:]]*uridnsbl_skip_domain//p' "$work/root/usr/share/spamassassin/25_uribl.cf" | tr -s ' \t' '\n\n'
} | tr 'A-Z' 'a-z' | grep -E '^[a-z0-9-]+(\.[a-z0-9-]+)+$' |
	grep -vE '^example\.' | LC_ALL=C sort -u >"$work/domains"
{
	echo "# Domains that unrelated senders link to. Written by list.sh from rspamd and SpamAssassin, both under the"
	echo "# Apache License 2.0 (https://www.apache.org/licenses/LICENSE-2.0):"
	(cd "$work" && for p in *.deb; do echo "# $p"; done)
	cat "$work/domains"
} >domains.txt
wc -l domains.txt
