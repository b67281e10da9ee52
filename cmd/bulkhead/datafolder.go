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

// defaultData is the data folder of a node for which none is configured.
const defaultData = "bulkhead-data"

// installedConfig is the configuration file of the node that a package installs. installedData is
// its data folder if that file names none. Tests replace both.
var (
	installedConfig = setup.DefaultConfig
	installedData   = "/var/lib/bulkhead"
)

// dataFlag adds the --data flag for commands that create a data folder.
func dataFlag(f *pflag.FlagSet, data *string) {
	f.StringVar(data, "data", "", "data `FOLDER` of the node (default: $STATE_DIRECTORY, else ./bulkhead-data)")
}

// ownDataFlag adds the --data flag for commands that work on the data folder of an existing node.
func ownDataFlag(f *pflag.FlagSet, data *string) {
	f.StringVar(data, "data", "",
		"data `FOLDER` of the node (default: $STATE_DIRECTORY, else ./bulkhead-data,\nelse the installed node's)")
}

// dataFolder returns the folder for a node's state: the flag, else the configured folder, else the
// folder that systemd provides, else ./bulkhead-data.
func dataFolder(flag, configured string) string {
	if flag != "" {
		return flag
	}
	if configured != "" {
		return configured
	}
	// systemd separates several folders with colons.
	if dir, _, _ := strings.Cut(os.Getenv("STATE_DIRECTORY"), ":"); dir != "" {
		return dir
	}
	return defaultData
}

// A machineNode is the node of this machine, for commands that need one.
type machineNode struct {
	data      string // its data folder, which may be missing
	server    string // its URL if the installed node's configuration has one, else ""
	installed bool   // found where a package installs it
}

// findNode finds the node of this machine: the node in [dataFolder] if that is named or exists,
// else the installed node.
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

// installedNode returns the node that a package has installed; ok is false if there is none. It
// ignores mistakes in the node's configuration, which other commands report.
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

// token returns the path of the file with the administrator's token.
func (n *machineNode) token() string { return filepath.Join(n.data, node.AdminTokenFile) }

// isAt reports whether a URL is the installed node's, or is on this machine.
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
