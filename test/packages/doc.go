// Package packages installs the packages of dist/ in a root of its own, upgrades, removes and
// purges them, has lintian and systemd look at them, and runs the program of the container
// image. By the clock, it goes from a mail server without the package to the first spam in
// Junk. Its tests have the build tag "interop"; they need "make packages" first.
package packages
