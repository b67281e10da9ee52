// Package plugins embeds the plugins for rspamd and SpamAssassin and the scripts for Dovecot in the
// program, so that "bulkhead setup" installs the files of its own version. They are described in
// docs/plugins.md and docs/setup.md.
package plugins

import "embed"

// Files has rspamd/bulkhead.lua, spamassassin/Bulkhead.pm, spamassassin/bulkhead.cf, and the scripts
// for Dovecot below dovecot.
//
//go:embed rspamd spamassassin dovecot
var Files embed.FS
