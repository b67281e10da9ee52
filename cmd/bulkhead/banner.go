package main

import (
	"fmt"
	"io"
	"strings"

	"github.com/bulkhead-mail/bulkhead/internal/config"
	"github.com/bulkhead-mail/bulkhead/internal/node"
)

// writeBanner prints where the node listens, where its state is and, for a newcomer, what to do
// next.
func writeBanner(w io.Writer, newcomer bool, n *node.Node, cfg *config.Config, dir string) {
	var b strings.Builder
	fmt.Fprintf(&b, "\n  bulkhead %s: the node is ready\n\n", version())
	for _, d := range n.Doors() {
		fmt.Fprintf(&b, "    %-13s %s\n", d.Name, d.Address)
	}
	promise := "a report is on disk before it is acknowledged"
	if cfg.Node.Durability == "relaxed" {
		promise = "relaxed: a power cut loses the last second"
	}
	fmt.Fprintf(&b, "    %-13s %s (%s)\n", "data", dir, promise)
	fmt.Fprintf(&b, "    %-13s %s\n", "administrator", n.AdminTokenFile())
	if newcomer {
		b.WriteString("\n  Try, in another terminal:\n\n" +
			"    bulkhead check message.eml      what is known of a message\n" +
			"    bulkhead report message.eml     say that it is spam\n" +
			"    bulkhead revoke message.eml     take that back\n" +
			"    bulkhead login                  a link to the node's pages, for a browser\n" +
			"    bulkhead config reference       every setting, as a file to start from\n\n" +
			"  Only programs on this machine can connect. Ctrl-C stops the node.\n")
	}
	b.WriteByte('\n')
	io.WriteString(w, b.String())
}
