// Package root holds the tests of the interop root: a folder of unpacked Debian
// packages (build) that tests with real servers and clients run in (enter). It
// has no code of its own.
package root
