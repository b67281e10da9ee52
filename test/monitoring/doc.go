// Package monitoring tests what a node exposes, and the alert rules and the dashboard of
// the packages, with Prometheus's own tool. Its tests have the build tag "interop".
package monitoring
