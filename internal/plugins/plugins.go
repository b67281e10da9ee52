// Package plugins embeds the plugins for rspamd and SpamAssassin in the program, so that "bulkhead
// setup" installs the plugins of its own version. They are described in docs/plugins.md.
package plugins

import "embed"

// Files has rspamd/bulkhead.lua, spamassassin/Bulkhead.pm and spamassassin/bulkhead.cf.
//
//go:embed rspamd spamassassin
var Files embed.FS
