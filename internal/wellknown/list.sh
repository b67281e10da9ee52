#!/bin/sh
# Writes domains.txt: the domains that the rules of SpamAssassin and rspamd, as Debian packages them,
# exempt from lists of links or know as redirectors. Writes mailboxes.txt: those of them that give mailboxes
# to anybody, by the rules of SpamAssassin. Needs apt and network. Run by "make wellknown".
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
packages() {
	echo "# $1 Written by list.sh from rspamd and SpamAssassin,"
	echo "# both under the Apache License 2.0 (https://www.apache.org/licenses/LICENSE-2.0):"
	(cd "$work" && for p in *.deb; do echo "# $p"; done)
}
{
	packages "Domains that unrelated senders link to."
	cat "$work/domains"
} >domains.txt
# The rules have names such as yahoo.*: each star stands for letters.
cat "$work"/root/usr/share/spamassassin/20_freemail*.cf | sed -n 's/^[[:space:]]*freemail_domains//p' | tr -s ' \t' '\n\n' |
	grep . | sed 's/\./\\./g; s/\*/[a-z.]*/g; s/?/./g; s/^/^/; s/$/$/' >"$work/freemail"
{
	packages "Domains of domains.txt that give mailboxes to anybody."
	grep -E -f "$work/freemail" "$work/domains"
} >mailboxes.txt
wc -l domains.txt mailboxes.txt
