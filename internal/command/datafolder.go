package command

import (
	"net"
	"net/netip"
	"net/url"
	"os"
	"path/filepath"
	"strings"

	"github.com/bulkhead-mail/bulkhead/client/admin"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/bulkhead-mail/bulkhead/internal/config"
	"github.com/bulkhead-mail/bulkhead/internal/local"
	"github.com/bulkhead-mail/bulkhead/internal/node"
	"github.com/bulkhead-mail/bulkhead/internal/setup"
)

// defaultData is the data folder of a node for which none is configured.
const defaultData = "bulkhead-data"

// InstalledConfig is the configuration file of the node that a package installs. InstalledData is
// its data folder if that file names none, and InstalledRun the folder of its socket. Tests replace
// them.
var (
	InstalledConfig = setup.DefaultConfig
	InstalledData   = "/var/lib/bulkhead"
	InstalledRun    = "/run/bulkhead"
)

// Socket returns the path of the socket that a node with a data folder opens: in the folder that a
// service manager provides for it, else in the data folder.
func Socket(data string) string {
	// systemd separates several folders with colons.
	if dir, _, _ := strings.Cut(os.Getenv("RUNTIME_DIRECTORY"), ":"); dir != "" {
		return filepath.Join(dir, local.Name)
	}
	return filepath.Join(data, local.Name)
}

// DataFlag adds the --data flag for commands that create a data folder.
func DataFlag(f *pflag.FlagSet, data *string) {
	f.StringVar(data, "data", "", "data `FOLDER` of the node (default: $STATE_DIRECTORY, else ./bulkhead-data)")
}

// OwnDataFlag adds the --data flag for commands that work on the data folder of an existing node.
func OwnDataFlag(f *pflag.FlagSet, data *string) {
	f.StringVar(data, "data", "",
		"data `FOLDER` of the node (default: $STATE_DIRECTORY, else ./bulkhead-data,\nelse the installed node's)")
}

// DataFolder returns the folder for a node's state: the flag, else the configured folder, else the
// folder that systemd provides, else ./bulkhead-data.
func DataFolder(flag, configured string) string {
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

// findNode finds the node of this machine: the node in [DataFolder] if that is named or exists,
// else the installed node.
func findNode(flag, configured string) machineNode {
	n := machineNode{data: DataFolder(flag, configured)}
	named := flag != "" || configured != "" || n.data != defaultData
	// The folder is not named by the user, so it may be a trap that another user has set.
	if _, err := os.Stat(n.data); named || err == nil && local.IsMine(n.data) {
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
	n = machineNode{data: InstalledData, installed: true}
	if cfg, _ := config.Inspect(InstalledConfig); cfg != nil {
		if cfg.Node.Data != "" {
			n.data = cfg.Node.Data
		}
		if address, err := OwnAddress(cfg.Listen.HTTP); err == nil {
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

// sockets returns the paths at which the node's socket may be.
func (n *machineNode) sockets() []string {
	own := filepath.Join(n.data, local.Name)
	if n.installed {
		return []string{filepath.Join(InstalledRun, local.Name), own}
	}
	return []string{own}
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
	return isLoopback(server)
}

// isLoopback reports whether a URL has a loopback address or the name localhost.
func isLoopback(server string) bool {
	u, err := url.Parse(server)
	if err != nil {
		return false
	}
	addr, err := netip.ParseAddr(u.Hostname())
	return u.Hostname() == "localhost" || err == nil && addr.IsLoopback()
}

// NodeFolder returns the data folder of the node of this machine.
func NodeFolder(flag, configured string) string { return findNode(flag, configured).data }

// OwnAddress returns the address at which a listener can be reached from the same machine.
func OwnAddress(listen string) (string, error) {
	if _, port, err := net.SplitHostPort(listen); err != nil || port == "0" {
		return "", &config.Error{Key: "listen.http", Detail: "has no port at which to reach the node"}
	}
	return config.Reachable(listen), nil
}

// Record records the action of a command on the data folder of a node that does not run. It
// does nothing if the folder is missing or belongs to another user.
func Record(cmd *cobra.Command, dir, action string, err error) {
	if _, missing := os.Stat(filepath.Join(dir, node.StoreFolder)); missing != nil {
		return
	}
	e := admin.AuditEntry{Action: action}
	if err != nil {
		e.Error = err.Error()
	}
	if failed := node.RecordCommand(dir, e); failed != nil && err == nil { // else for the reason of err, or after it
		Complain(cmd, failed)
	}
}
