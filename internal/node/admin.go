package node

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"

	"github.com/bulkhead-mail/bulkhead/internal/clock"
	"github.com/bulkhead-mail/bulkhead/internal/config"
	"github.com/bulkhead-mail/bulkhead/internal/trust"
)

// adminName is the account that a new node begins with.
const adminName = "admin"

// RecoverAdmin gives the administrator's account of a stopped node a new token, and writes it to
// the data folder. It makes or reopens the account if needed. cfg may differ from the node's own
// configuration, so nothing is dropped because of it.
func RecoverAdmin(ctx context.Context, cfg *config.Config, dir string, log *slog.Logger) (err error) {
	if _, err := os.Stat(filepath.Join(dir, StoreFolder)); err != nil {
		return fmt.Errorf("%s holds no node: %w", dir, err)
	}
	n := newCore(cfg, dir, log)
	if err := n.open(ctx, true); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, n.close(ctx)) }()
	account, ok := n.engine.Accounts().Get(adminName)
	if !ok {
		account = trust.Account{Name: adminName, Created: clock.Now().UTC()}
	}
	return n.makeAdmin(ctx, account)
}

// ensureAdmin makes the administrator's account at the first start. It stores the token so that
// only the node's user can read it.
func (n *core) ensureAdmin(ctx context.Context) error {
	if n.engine.Accounts().Len() > 0 {
		return nil
	}
	return n.makeAdmin(ctx, trust.Account{Name: adminName, Created: n.started})
}

// makeAdmin makes account an open administrator with a new token.
func (n *core) makeAdmin(ctx context.Context, account trust.Account) error {
	token, hash := trust.NewToken()
	if err := writeSecret(filepath.Join(n.dir, AdminTokenFile), token); err != nil {
		return fmt.Errorf("token of the administrator: %w", err)
	}
	account.Role, account.Weight, account.Closed, account.TokenHash = trust.Admin, 1, false, hash
	return n.engine.PutAccount(ctx, account)
}
