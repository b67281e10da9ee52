package doors

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/bulkhead-mail/bulkhead"
	"github.com/bulkhead-mail/bulkhead/dcc"
	"github.com/bulkhead-mail/bulkhead/internal/config"
)

// dccClients knows the IDs of DCC clients: the IDs in the configuration, and the accounts whose
// name is an ID and that have a secret for DCC. The secret holds one or two passwords.
type dccClients struct {
	accounts *protocolAccounts
	fixed    map[uint32]dcc.Account
	now      func() time.Time

	mu    sync.RWMutex
	known map[uint32]dccKnown
}

// A dccKnown is the cached state of an account.
type dccKnown struct {
	client dcc.Account
	until  time.Time
}

const (
	// dccMemory is how long an account's state is cached, so that not every packet decrypts its
	// secret. Changes take effect after this time.
	dccMemory = 2 * time.Second
	// maxDCCKnown bounds the number of cached accounts.
	maxDCCKnown = 1 << 14
)

func newDCCClients(accounts *protocolAccounts, cfg []config.DCCClient) *dccClients {
	c := &dccClients{accounts: accounts, fixed: make(map[uint32]dcc.Account), now: time.Now,
		known: make(map[uint32]dccKnown)}
	for _, client := range cfg {
		passwords := []string{client.Password}
		if client.Password2 != "" {
			passwords = append(passwords, client.Password2)
		}
		c.fixed[client.ID] = dcc.Account{Passwords: passwords, Name: client.Account}
	}
	return c
}

// account returns the account with an ID.
func (c *dccClients) account(id uint32) (dcc.Account, bool) {
	if client, ok := c.fixed[id]; ok {
		return client, true
	}
	now := c.now()
	c.mu.RLock()
	k, ok := c.known[id]
	c.mu.RUnlock()
	if ok && now.Before(k.until) {
		return k.client, true
	}
	name := strconv.FormatUint(uint64(id), 10)
	secret, ok, err := c.accounts.Secret(context.Background(), name)
	if err == nil && ok {
		k = dccKnown{dcc.Account{Passwords: strings.Fields(string(secret)), Name: name}, now.Add(dccMemory)}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if err != nil || !ok {
		delete(c.known, id)
		return dcc.Account{}, false
	}
	if len(c.known) >= maxDCCKnown {
		clear(c.known)
	}
	c.known[id] = k
	return k.client, true
}

// checkDCCSecret refuses secrets that no DCC client could use.
func checkDCCSecret(name, secret string) error {
	id, err := strconv.ParseUint(name, 10, 32)
	if err != nil || id < dcc.MinServerID || id > dcc.MaxClientID || strconv.FormatUint(id, 10) != name {
		return fmt.Errorf("%w: a DCC client's account is named after its ID, such as 32769 (%d to %d), not %.40q",
			bulkhead.ErrMalformed, dcc.MinServerID, dcc.MaxClientID, name)
	}
	passwords := strings.Fields(secret)
	if len(passwords) > 2 {
		return fmt.Errorf("%w: %d DCC passwords, want one or two", bulkhead.ErrMalformed, len(passwords))
	}
	for _, p := range passwords {
		if len(p) > dcc.MaxPassword {
			return fmt.Errorf("%w: DCC password of %d bytes, limit %d", bulkhead.ErrMalformed, len(p), dcc.MaxPassword)
		}
	}
	if len(passwords) == 0 {
		return fmt.Errorf("%w: DCC password of blanks", bulkhead.ErrMalformed)
	}
	return nil
}

// CheckSecret refuses a secret that no client of a protocol could use.
func CheckSecret(protocol, name, secret string) error {
	if protocol != "dcc" {
		return nil
	}
	return checkDCCSecret(name, secret)
}
