// Package web tests the pages of a node in a real browser, Chromium: what they show and
// do, by keyboard, without scripts, live, in light and dark and at all widths; and that
// axe-core finds nothing on them that keeps anybody out. Its tests have the build tag
// "interop".
package web
