// Package proxies puts real reverse proxies on their default configurations before a node's HTTP
// door, and tests that no client behind them counts as local. It has tests only.
package proxies
