// Package setup makes the mail programs of a machine ask a node. It finds them by their
// configuration, shows as a unified diff what it would change, and makes the changes with a
// backup that can be restored. docs/setup.md says what is done to each program, and why.
//
// It only deals with files: it starts, restarts and asks nothing, and reads and writes
// nothing outside the root that the caller names, whatever links are in it. What it adds to
// somebody else's file is between two marks, so that a second run finds its own work and
// changes nothing.
package setup
