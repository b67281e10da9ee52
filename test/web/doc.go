// Package web tests the pages of a node in a real browser, Chromium: their contents and forms, by
// keyboard, without scripts, live, in light and dark and at all widths. It also tests that axe-core
// finds no barriers to accessibility on them. Its tests have the build tag "interop".
package web
