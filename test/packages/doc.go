// Package packages installs the deb of dist/ in a root of its own, upgrades, removes and
// purges it, has lintian and systemd look at it, and runs the program of the container image.
// Its tests have the build tag "interop"; they need "make packages" first.
package packages
