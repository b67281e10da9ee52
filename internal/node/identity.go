package node

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"slices"

	"github.com/bulkhead-mail/bulkhead"
	"github.com/bulkhead-mail/bulkhead/filter"
	"github.com/bulkhead-mail/bulkhead/internal/config"
	"github.com/bulkhead-mail/bulkhead/internal/engine"
	"github.com/bulkhead-mail/bulkhead/internal/mesh"
	"github.com/bulkhead-mail/bulkhead/internal/standby"
	"github.com/bulkhead-mail/bulkhead/internal/trust"
	"github.com/bulkhead-mail/bulkhead/internal/wholefile"
)

// An Identity is the identity of a node in a network.
type Identity struct {
	// Secret is the network's, shared by all its nodes.
	Secret filter.Secret
	// Key is the public half of the node's own key. Predecessor is the public half of the previous
	// key, "" if there was none.
	Key, Predecessor string
	// Aggregate is the public half of the key of the node's aggregate, "" if it never published
	// one.
	Aggregate string
}

// Network returns the fingerprint of the secret, which may be published.
func (id *Identity) Network() string { return fingerprint(id.Secret) }

func fingerprint(s filter.Secret) string { return fmt.Sprintf("%016x", s.ID()) }

// NewNetwork makes the secret of a new network and the node's key, in the data folder of a node
// that has never run. With a secretFile, it takes the secret of an existing network from that file.
func NewNetwork(dir, secretFile string) (Identity, error) {
	if err := ownFolder(dir); err != nil {
		return Identity{}, err
	}
	path := filepath.Join(dir, networkKeyFile)
	if _, err := os.Stat(path); err == nil {
		return Identity{}, fmt.Errorf(
			"%s exists, and the node's counts can only be found with it; see \"bulkhead network show\"", path)
	}
	if err := wholefile.MakeFolder(dir); err != nil {
		return Identity{}, err
	}
	var secret filter.Secret
	if secretFile != "" {
		if err := ReadKey(secretFile, secret[:]); err != nil {
			return Identity{}, err
		}
		if _, err := os.Stat(filepath.Join(dir, StoreFolder)); err == nil {
			return Identity{}, fmt.Errorf("%s holds the counts of another network", dir)
		}
		if err := writeKey(path, secret[:]); err != nil {
			return Identity{}, err
		}
	} else if err := loadKey(dir, networkKeyFile, secret[:]); err != nil {
		return Identity{}, err
	}
	return withKey(dir, secret)
}

// ReadNetwork returns the identity of the node of a data folder.
func ReadNetwork(dir string) (Identity, error) {
	if err := ownFolder(dir); err != nil {
		return Identity{}, err
	}
	var secret filter.Secret
	if err := ReadKey(filepath.Join(dir, networkKeyFile), secret[:]); err != nil {
		if errors.Is(err, fs.ErrNotExist) {
			return Identity{}, fmt.Errorf("%s has no network yet: make one with \"bulkhead network new\": %w", dir,
				fs.ErrNotExist)
		}
		return Identity{}, err
	}
	return withKey(dir, secret)
}

// withKey reads the node's key, or makes it.
func withKey(dir string, secret filter.Secret) (Identity, error) {
	id, err := mesh.OpenIdentity(filepath.Join(dir, meshFolder))
	if err != nil {
		return Identity{}, err
	}
	out := Identity{Secret: secret, Key: id.ID(), Predecessor: id.Predecessor()}
	sum := filepath.Join(dir, meshFolder, aggregateFolder)
	if _, err := os.Stat(sum); err == nil {
		id, err := mesh.OpenIdentity(sum)
		if err != nil {
			return Identity{}, err
		}
		out.Aggregate = id.ID()
	}
	return out, nil
}

// NATSUsers returns the part of a NATS server's configuration that admits the node of a data folder
// and other nodes, by their keys: see [mesh.Grants]. fingerprint identifies the network; "" is the
// present one. domain is the JetStream domain of mesh.domain.
func NATSUsers(dir, fingerprint, domain string, others []string) (string, error) {
	if err := config.CheckDomain(domain); err != nil {
		return "", fmt.Errorf("%w: %v", bulkhead.ErrMalformed, err)
	}
	id, err := ReadNetwork(dir)
	if err != nil {
		return "", err
	}
	if fingerprint == "" {
		fingerprint = id.Network()
	}
	return mesh.Grants(fingerprint, domain, append([]string{id.Key}, others...)...)
}

// RotateKey makes a new key for the node, signed by the old one, and returns the public halves of
// both. The node uses it after its next start.
func RotateKey(dir string) (old, to string, err error) {
	if err := ownFolder(dir); err != nil {
		return "", "", err
	}
	dir = filepath.Join(dir, meshFolder)
	if _, err := os.Stat(dir); err != nil {
		return "", "", fmt.Errorf("%s: the node has no key yet: %w", dir, err)
	}
	before, after, err := mesh.RotateIdentity(dir)
	if err != nil {
		return "", "", err
	}
	return before.ID(), after.ID(), nil
}

// adminName is the account that a new node begins with.
const adminName = "admin"

// RecoverAdmin gives the administrator's account of a stopped node a new token, and writes it to
// the data folder. It makes or reopens the account if needed. cfg may differ from the node's own
// configuration, so nothing is dropped because of it.
func RecoverAdmin(ctx context.Context, cfg *config.Config, dir string, log *slog.Logger) (err error) {
	if _, err := os.Stat(filepath.Join(dir, StoreFolder)); err != nil {
		return fmt.Errorf("%s holds no node: %w", dir, err)
	}
	return withFolder(dir, func() error {
		if s, err := standby.LoadState(dir); err != nil {
			return err
		} else if s.Role == standby.Second {
			return fmt.Errorf("%w: this node follows the one at %s, and has its accounts: recover the token there, or "+
				"start this node and type \"bulkhead promote\" before", bulkhead.ErrForbidden, s.Address)
		}
		n := newCore(cfg, dir, log)
		if err := n.open(ctx, true); err != nil {
			return err
		}
		return errors.Join(n.makeAdmin(ctx), n.close(ctx))
	})
}

// ensureAdmin makes the administrator's account at the first start, and where a damaged store has lost the
// accounts. It stores the token so that only the node's user can read it.
func (n *core) ensureAdmin(ctx context.Context) error {
	accounts := n.engine.Accounts()
	lost := n.mending != nil && slices.ContainsFunc(n.engine.Doubts(),
		func(d engine.Doubt) bool { return d.Array == "accounts" })
	if accounts.Len() > 0 && (!lost || slices.ContainsFunc(accounts.All(), isAdmin)) {
		return nil
	}
	if n.mending != nil {
		n.mending.admin = true
	}
	return n.makeAdmin(ctx)
}

func isAdmin(a trust.Account) bool { return a.Role == trust.Admin && !a.Closed }

// makeAdmin makes the administrator's account an open administrator with a new token. It makes the account if
// there is none.
func (n *core) makeAdmin(ctx context.Context) error {
	account, ok := n.engine.Accounts().Get(adminName)
	if !ok {
		account = trust.Account{Name: adminName, Created: n.started}
	}
	token, hash := trust.NewToken()
	if err := writeSecret(filepath.Join(n.dir, AdminTokenFile), token); err != nil {
		return fmt.Errorf("token of the administrator: %w", err)
	}
	account.Role, account.Weight, account.Closed, account.TokenHash = trust.Admin, 1, false, hash
	return n.engine.PutAccount(ctx, account)
}
