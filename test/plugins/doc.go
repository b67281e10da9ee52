// Package plugins tests the plugins for rspamd and SpamAssassin with the real programs,
// before a node and before one that is away, slow or wrong. Its tests have the build
// tag "interop".
package plugins
