// Package setup makes the mail programs of a machine ask a node. It finds them by their
// configuration, shows as a unified diff what it would change, and makes the changes with a backup
// that can be restored. docs/setup.md describes the changes to each program, and the reasons.
//
// It only deals with files: it does not start, restart or ask programs. It never reads or writes
// outside the root that the caller names, even through links. Its additions to a site's file are
// between two marks, so that a second run finds them and changes nothing.
package setup
