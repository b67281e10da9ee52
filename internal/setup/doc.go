// Package setup makes the mail programs of a machine ask a node: it finds them by
// their configuration, says as a unified diff what it would change there, and changes
// that with a backup which can be put back. docs/setup.md has what is done to each
// program, and why.
//
// It knows files alone: nothing is started, restarted or asked, and nothing outside of
// the root that the caller names is read or written, whatever links lie in it. What it
// adds to a file of others stands between two marks, so that a second run finds its own
// work and changes nothing.
package setup
