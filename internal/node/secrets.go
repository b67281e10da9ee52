package node

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/bulkhead-mail/bulkhead"
	"github.com/bulkhead-mail/bulkhead/filter"
)

// pastKeysFile holds the secrets that the node counted under before, newest first, one a line, as
// long as counts under them may be found: see [engine.Engine.Rekey]. Former secrets of the present
// network come first, and are marked so.
const pastKeysFile = "network.past"

// ofNetwork follows a secret that the network had before.
const ofNetwork = "network"

// A past is the former secrets of a node.
type past struct {
	all    []filter.Secret // newest first
	former int             // how many of them, from the first, were the network's
}

// secrets are the network's secret and its predecessors.
type secrets struct {
	present atomic.Pointer[filter.Secret]
	past    past       // content of the file of former secrets
	mu      sync.Mutex // held while the secret changes; it guards past
}

// readPast returns the former secrets of a data folder.
func readPast(dir string) (p past, err error) {
	path := filepath.Join(dir, pastKeysFile)
	text, err := ReadSecret(path)
	if errors.Is(err, fs.ErrNotExist) || err == nil && text == "" {
		return p, nil
	}
	if err != nil {
		return p, err
	}
	for i, line := range strings.Split(text, "\n") {
		text, shared := strings.CutSuffix(strings.TrimSpace(line), " "+ofNetwork)
		raw, err := hex.DecodeString(text)
		if err != nil || len(raw) != len(filter.Secret{}) {
			return past{}, fmt.Errorf("%w: %s, line %d: want %d hexadecimal digits: put it back from a backup",
				bulkhead.ErrMalformed, path, i+1, 2*len(filter.Secret{}))
		}
		if shared && p.former == len(p.all) {
			p.former++
		}
		p.all = append(p.all, filter.Secret(raw))
	}
	return p, nil
}

func writePast(dir string, p past) error {
	lines := make([]string, len(p.all))
	for i, s := range p.all {
		lines[i] = hex.EncodeToString(s[:])
		if i < p.former {
			lines[i] += " " + ofNetwork
		}
	}
	return writeSecret(filepath.Join(dir, pastKeysFile), strings.Join(lines, "\n"))
}

// loadSecrets reads the network's secret, or makes it, and the former secrets.
func (n *core) loadSecrets() error {
	var secret filter.Secret
	err := loadKey(n.dir, networkKeyFile, secret[:])
	if err == nil {
		n.secrets.past, err = readPast(n.dir)
	}
	n.secrets.present.Store(&secret)
	return err
}

// secret returns the network's secret.
func (n *core) secret() filter.Secret { return *n.secrets.present.Load() }

// rekey makes the secret of another network the node's, while it runs. Earlier counts remain
// available under the secret that they were counted with. Counts of the oldest secret are given up
// if there are too many secrets. On an error nothing has changed.
func (n *Node) rekey(ctx context.Context, secret filter.Secret) error {
	return n.exchange(ctx, secret, false)
}

// rekeyAll does the same for a secret that all members of the network change to.
func (n *Node) rekeyAll(ctx context.Context, secret filter.Secret) error {
	return n.exchange(ctx, secret, true)
}

// exchange makes another secret the node's, and the secret of all members if all is true.
func (n *Node) exchange(ctx context.Context, secret filter.Secret, all bool) error {
	n.secrets.mu.Lock()
	defer n.secrets.mu.Unlock()
	before := n.secret()
	if secret == before {
		return nil
	}
	if err := n.engine.CanRekey(secret); err != nil && (all || !errors.Is(err, bulkhead.ErrOverLimit)) {
		return err
	}
	// A crash at any point leaves files with which everything is found: whatever is the present
	// secret, the others are among its predecessors.
	past, change := past{all: append([]filter.Secret{before}, n.secrets.past.all...)}, n.engine.RekeyAnyway
	if all {
		past.former, change = 1+n.secrets.past.former, n.engine.RekeyAll
	}
	if err := writePast(n.dir, past); err != nil {
		return err
	}
	path := filepath.Join(n.dir, networkKeyFile)
	if err := writeKey(path, secret[:]); err != nil {
		return err
	}
	if err := change(ctx, secret); err != nil {
		return errors.Join(err, writeKey(path, before[:]))
	}
	n.secrets.past = past
	n.secrets.present.Store(&secret)
	n.state.Renew() // it has the network's fingerprint
	return nil
}

// forgetSecrets removes from the file the secrets under which nothing can be found any more. The
// engine has written its last snapshot, so no journal needs them either.
func (n *core) forgetSecrets() error {
	used := n.engine.Secrets()[1:]
	if len(used) == len(n.secrets.past.all) {
		return nil
	}
	return writePast(n.dir, past{used, len(n.engine.Former())})
}
