package main

import (
	"net/netip"
	"net/url"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/pflag"

	"github.com/bulkhead-mail/bulkhead/internal/config"
	"github.com/bulkhead-mail/bulkhead/internal/node"
	"github.com/bulkhead-mail/bulkhead/internal/setup"
)

// defaultData is the data folder of a node that is told of none.
const defaultData = "bulkhead-data"

// installedConfig and installedData are the configuration file of the node that a package
// installs, and its data folder if that file names none. Tests replace them.
var (
	installedConfig = setup.DefaultConfig
	installedData   = "/var/lib/bulkhead"
)

// dataFlag adds the flag of commands that make a data folder.
func dataFlag(f *pflag.FlagSet, data *string) {
	f.StringVar(data, "data", "", "data `FOLDER` of the node (default: $STATE_DIRECTORY, else ./bulkhead-data)")
}

// ownDataFlag adds the flag of commands that work on the data folder of a node that exists.
func ownDataFlag(f *pflag.FlagSet, data *string) {
	f.StringVar(data, "data", "",
		"data `FOLDER` of the node (default: $STATE_DIRECTORY, else ./bulkhead-data,\nelse the installed node's)")
}

// dataFolder returns where a node keeps its state, or will: the flag, else the
// configuration, else where systemd wants it, else ./bulkhead-data.
func dataFolder(flag, configured string) string {
	if flag != "" {
		return flag
	}
	if configured != "" {
		return configured
	}
	// systemd names several folders with colons between them.
	if dir, _, _ := strings.Cut(os.Getenv("STATE_DIRECTORY"), ":"); dir != "" {
		return dir
	}
	return defaultData
}

// A machineNode is the node of this machine, as commands find it that need one.
type machineNode struct {
	data      string // its data folder, which may be missing
	server    string // its URL, if the configuration of the installed node gives one; else ""
	installed bool   // it was found where a package installs it
}

// findNode finds the node of this machine: [dataFolder] if that is named or exists, else
// the installed node.
func findNode(flag, configured string) machineNode {
	n := machineNode{data: dataFolder(flag, configured)}
	named := flag != "" || configured != "" || n.data != defaultData
	if _, err := os.Stat(n.data); named || err == nil {
		return n
	}
	if found, ok := installedNode(); ok {
		return found
	}
	return n
}

// installedNode returns the node that a package has installed; ok is false if there is
// none. A mistake in its configuration is for other commands to report.
func installedNode() (n machineNode, ok bool) {
	n = machineNode{data: installedData, installed: true}
	if cfg, _ := config.Inspect(installedConfig); cfg != nil {
		if cfg.Node.Data != "" {
			n.data = cfg.Node.Data
		}
		if address, err := ownAddress(cfg.Listen.HTTP); err == nil {
			scheme := "http://"
			if cfg.HTTP.TLSCert != "" {
				scheme = "https://"
			}
			n.server = scheme + address
		}
	}
	_, err := os.Stat(n.data)
	return n, err == nil
}

// token returns the file with the token of the node's administrator.
func (n *machineNode) token() string { return filepath.Join(n.data, node.AdminTokenFile) }

// isAt reports whether a URL is the installed node's, or at least on this machine.
func (n *machineNode) isAt(server string) bool {
	u, err := url.Parse(server)
	if err != nil {
		return false
	}
	own, err := url.Parse(n.server)
	if err == nil && n.server != "" && u.Host == own.Host {
		return true
	}
	addr, err := netip.ParseAddr(u.Hostname())
	return u.Hostname() == "localhost" || err == nil && addr.IsLoopback()
}

// nodeFolder returns the data folder of the node of this machine.
func nodeFolder(flag, configured string) string { return findNode(flag, configured).data }
