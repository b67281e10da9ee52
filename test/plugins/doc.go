// Package plugins tests the plugins for rspamd and SpamAssassin with the real programs, in front of
// a node, and of a node that is down, slow or wrong. Its tests have the build tag "interop".
package plugins
