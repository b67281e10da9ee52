package node

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"strings"
	"time"

	"github.com/bulkhead-mail/bulkhead"
	"github.com/bulkhead-mail/bulkhead/filter"
)

// pastKeysFile holds the secrets that the node's network had before, newest first, one a
// line, as long as anything that was counted under them may be found: see
// [engine.Engine.Rekey].
const pastKeysFile = "network.past"

// readPast returns the secrets of a data folder before the present one.
func readPast(dir string) ([]filter.Secret, error) {
	path := filepath.Join(dir, pastKeysFile)
	text, err := ReadSecret(path)
	if errors.Is(err, fs.ErrNotExist) || err == nil && text == "" {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	var past []filter.Secret
	for i, line := range strings.Split(text, "\n") {
		raw, err := hex.DecodeString(strings.TrimSpace(line))
		if err != nil || len(raw) != len(filter.Secret{}) {
			return nil, fmt.Errorf("%w: %s, line %d: want %d hexadecimal digits: put it back from a backup", bulkhead.ErrMalformed, path, i+1, 2*len(filter.Secret{}))
		}
		past = append(past, filter.Secret(raw))
	}
	return past, nil
}

func writePast(dir string, past []filter.Secret) error {
	lines := make([]string, len(past))
	for i, s := range past {
		lines[i] = hex.EncodeToString(s[:])
	}
	return writeSecret(filepath.Join(dir, pastKeysFile), strings.Join(lines, "\n"))
}

// loadSecrets reads the network's secret, or makes it, and those before.
func (n *core) loadSecrets() error {
	var secret filter.Secret
	err := loadKey(n.dir, networkKeyFile, secret[:])
	if err == nil {
		n.past, err = readPast(n.dir)
	}
	n.present.Store(&secret)
	return err
}

// secret returns the network's secret.
func (n *core) secret() filter.Secret { return *n.present.Load() }

// rekey makes another secret the network's, while the node runs: what was counted until
// now goes on answering under the secret that it was counted with. On an error nothing has
// changed.
func (n *core) rekey(ctx context.Context, secret filter.Secret) error {
	n.rekeying.Lock()
	defer n.rekeying.Unlock()
	before := n.secret()
	if secret == before {
		return nil
	}
	if err := n.engine.CanRekey(secret); err != nil {
		return err
	}
	// A crash at any point leaves files with which everything is found: whatever is the
	// secret, the others are among those before it.
	past := append([]filter.Secret{before}, n.past...)
	if err := writePast(n.dir, past); err != nil {
		return err
	}
	path := filepath.Join(n.dir, networkKeyFile)
	if err := writeKey(path, secret[:]); err != nil {
		return err
	}
	if err := n.engine.Rekey(ctx, secret); err != nil {
		return errors.Join(err, writeKey(path, before[:]))
	}
	n.past = past
	n.present.Store(&secret)
	n.stateMu.Lock()
	n.stateAt = time.Time{} // it names the network
	n.stateMu.Unlock()
	return nil
}

// forgetSecrets strikes the secrets out of the file under which nothing can be found any
// more. The engine has written its last snapshot: no journal needs them either.
func (n *core) forgetSecrets() error {
	used := n.engine.Secrets()[1:]
	if len(used) == len(n.past) {
		return nil
	}
	return writePast(n.dir, used)
}
