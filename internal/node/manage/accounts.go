package manage

import (
	"context"
	"fmt"
	"log/slog"
	"maps"
	"net/http"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/bulkhead-mail/bulkhead"
	"github.com/bulkhead-mail/bulkhead/client"
	"github.com/bulkhead-mail/bulkhead/client/admin"
	"github.com/bulkhead-mail/bulkhead/internal/api"
	"github.com/bulkhead-mail/bulkhead/internal/clock"
	"github.com/bulkhead-mail/bulkhead/internal/engine"
	"github.com/bulkhead-mail/bulkhead/internal/trust"
)

// AccountsOptions are the parts of a node that its accounts need. All fields are required.
type AccountsOptions struct {
	Engine *engine.Engine
	Sealer *trust.Sealer
	// CheckSecret refuses a secret that no client of a protocol could use.
	CheckSecret func(protocol, name, secret string) error
	Log         *slog.Logger
}

// Accounts manages the node's trust book: [api.Accounts], [api.Users] and [api.Passwords], and the
// accounts of doors whose handshake needs a shared secret. All doors share one, because its lock
// orders their changes. The methods may be called concurrently.
type Accounts struct {
	opts    AccountsOptions
	weights weights // over time
	// mu makes reading an account, changing it and writing it back one atomic step.
	mu sync.Mutex
}

// NewAccounts returns the accounts of a node. Their weights over time are not recorded before
// [Accounts.OpenWeights].
func NewAccounts(o AccountsOptions) *Accounts { return &Accounts{opts: o} }

// The protocols whose handshake needs a shared secret.
const (
	dccProtocol    = "dcc"
	pyzorProtocol  = "pyzor"
	razor2Protocol = "razor2"
)

// SecretProtocols returns the protocols for which an account may have a shared secret. The password
// for the pages is one of them, as [api.PagesSecret].
func SecretProtocols() []string {
	return []string{dccProtocol, api.PagesSecret, pyzorProtocol, razor2Protocol}
}

func (a *Accounts) book() *trust.Book { return a.opts.Engine.Accounts() }

// Authenticate implements [api.Accounts].
func (a *Accounts) Authenticate(_ context.Context, token string) (string, error) {
	account, err := a.book().Authenticate(token)
	return account.Name, err
}

// IsAdmin implements [api.Users].
func (a *Accounts) IsAdmin(_ context.Context, name string) bool {
	account, ok := a.book().Get(name)
	return ok && account.Role == trust.Admin && !account.Closed
}

// IsTrusted implements [api.Users].
func (a *Accounts) IsTrusted(_ context.Context, name string) bool {
	account, ok := a.book().Get(name)
	return ok && (account.Role == trust.Trusted || account.Role == trust.Admin) && !account.Closed
}

// Users implements [api.Users].
func (a *Accounts) Users(context.Context) ([]admin.User, error) {
	var users []admin.User
	for _, account := range a.book().All() {
		users = append(users, a.user(&account))
	}
	return users, nil
}

// User implements [api.Users].
func (a *Accounts) User(_ context.Context, name string) (admin.User, bool, error) {
	account, ok := a.book().Get(name)
	if !ok {
		return admin.User{}, false, nil
	}
	return a.user(&account), true, nil
}

func (a *Accounts) user(account *trust.Account) admin.User {
	protocols := slices.Sorted(maps.Keys(account.Sealed))
	if protocols == nil {
		protocols = []string{}
	}
	return admin.User{
		Name: account.Name, Role: string(account.Role), Weight: account.Weight, Worth: a.book().Worth(account.Name),
		Created: account.Created, From: account.From, Closed: account.Closed,
		Person: account.Person, Parent: account.Parent,
		Confirmed: account.Confirmed, Days: account.Days, Reverted: account.Reverted,
		Token: len(account.TokenHash) > 0, Protocols: protocols,
	}
}

// AddUser implements [api.Users].
func (a *Accounts) AddUser(ctx context.Context, u admin.NewUser) (string, error) {
	if u.Role == "" {
		u.Role = string(trust.Member)
	}
	role, err := trust.ParseRole(u.Role)
	if err != nil {
		return "", err
	}
	if err := trust.CheckNewName(u.Name); err != nil {
		return "", err
	}
	token, hash := trust.NewToken()
	account := trust.Account{
		Name: u.Name, Role: role, Weight: a.startWeight(role), Created: clock.Now().UTC(), TokenHash: hash,
	}
	if u.Weight != nil {
		account.Weight = *u.Weight
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if _, taken := a.book().Get(u.Name); taken {
		return "", fmt.Errorf("%w: account %q exists", bulkhead.ErrMalformed, u.Name)
	}
	if err := a.opts.Engine.PutAccount(ctx, account); err != nil {
		return "", err
	}
	a.noteWeights()
	return token, nil
}

func (a *Accounts) startWeight(role trust.Role) float64 {
	switch role {
	case trust.Trusted, trust.Admin:
		return 1
	case trust.Member:
		return a.book().Policy().SelfRegistered
	}
	return 0
}

// change edits one account durably.
func (a *Accounts) change(ctx context.Context, name string, edit func(*trust.Account) error) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	account, ok := a.book().Get(name)
	if !ok {
		return fmt.Errorf("%w: no account %q", bulkhead.ErrMalformed, name)
	}
	if err := edit(&account); err != nil {
		return err
	}
	if err := a.keepsAdmin(name, &account); err != nil {
		return err
	}
	return a.opts.Engine.PutAccount(ctx, account)
}

// keepsAdmin refuses a change that would leave the node without an administrator. A nil account
// stands for the removal of name.
func (a *Accounts) keepsAdmin(name string, account *trust.Account) error {
	if account != nil && account.Role == trust.Admin && !account.Closed {
		return nil
	}
	if !a.IsAdmin(context.Background(), name) {
		return nil
	}
	for _, other := range a.book().All() {
		if other.Name != name && other.Role == trust.Admin && !other.Closed {
			return nil
		}
	}
	return fmt.Errorf("%w: %q is the last administrator", bulkhead.ErrForbidden, name)
}

// ChangeUser implements [api.Users].
func (a *Accounts) ChangeUser(ctx context.Context, name string, c admin.UserChange) error {
	err := a.change(ctx, name, func(account *trust.Account) error {
		if c.Role != nil {
			role, err := trust.ParseRole(*c.Role)
			if err != nil {
				return err
			}
			account.Role = role
		}
		if c.Weight != nil {
			account.Weight = *c.Weight
		}
		if c.Closed != nil {
			account.Closed = *c.Closed
		}
		if c.Person != nil {
			account.Person = *c.Person
		}
		if c.Parent != nil {
			return a.answers(account, *c.Parent)
		}
		return nil
	})
	if err == nil {
		a.noteWeights()
	}
	return err
}

// answers makes a parent answer for an account; "" makes the account answer for itself.
func (a *Accounts) answers(account *trust.Account, parent string) error {
	if parent != "" {
		p, ok := a.book().Get(parent)
		switch {
		case !ok:
			return fmt.Errorf("%w: no account %q", bulkhead.ErrMalformed, parent)
		case p.Parent != "":
			return fmt.Errorf("%w: %q answers for %q and cannot answer for another", bulkhead.ErrMalformed, p.Parent, parent)
		}
	}
	account.Parent = parent
	return nil
}

// RemoveUser implements [api.Users].
func (a *Accounts) RemoveUser(ctx context.Context, name string) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	if err := a.keepsAdmin(name, nil); err != nil {
		return err
	}
	return a.opts.Engine.RemoveAccount(ctx, name)
}

// NewToken implements [api.Users].
func (a *Accounts) NewToken(ctx context.Context, name string) (string, error) {
	token, hash := trust.NewToken()
	err := a.change(ctx, name, func(account *trust.Account) error {
		account.TokenHash = hash
		return nil
	})
	if err != nil {
		return "", err
	}
	return token, nil
}

// UndoVotes implements [api.Users].
func (a *Accounts) UndoVotes(ctx context.Context, name string, since time.Time) (admin.Undone, error) {
	return a.undo(ctx, name, since, a.opts.Engine.UndoVotes)
}

// PreviewUndo implements [api.Users].
func (a *Accounts) PreviewUndo(ctx context.Context, name string, since time.Time) (admin.Undone, error) {
	return a.undo(ctx, name, since, a.opts.Engine.PreviewUndo)
}

// undo calls carry to take back the votes of the voter that a name identifies.
func (a *Accounts) undo(ctx context.Context, name string, since time.Time,
	carry func(ctx context.Context, voice string, since time.Time) (engine.Undone, error)) (admin.Undone, error) {
	all, err := a.voters(name)
	if err != nil {
		return admin.Undone{}, err
	}
	if all, err = a.whoVoted(all, since); err != nil {
		return admin.Undone{}, err
	}
	undone, err := carry(ctx, all[0].voice, since)
	return admin.Undone{Votes: undone.Votes, Off: undone.Off, On: undone.On, Oldest: undone.Oldest}, err
}

// PreviewClose implements [api.Users].
func (a *Accounts) PreviewClose(_ context.Context, name string) (admin.Closing, error) {
	account, ok := a.book().Get(name)
	if !ok {
		return admin.Closing{}, nil // the server has looked the account up
	}
	out := admin.Closing{Votes: a.opts.Engine.Votes(account.Voice()), AnswersFor: []string{}}
	for _, other := range a.book().All() {
		if other.Parent == name {
			out.AnswersFor = append(out.AnswersFor, other.Name)
		}
	}
	closed := account
	closed.Closed = true
	return out, a.keepsAdmin(name, &closed)
}

// A voter is a possible meaning of a name, with a name that is unambiguous.
type voter struct{ name, voice string }

// Prefixes of unambiguous names. Names of accounts and users have no colon.
const (
	accountPrefix = "account:"
	userPrefix    = "user:"
)

// voters returns the possible meanings of a name, at least one: an account, a user of the programs
// on this machine, and users of trusted accounts.
func (a *Accounts) voters(name string) (all []voter, err error) {
	if name, ok := strings.CutPrefix(name, accountPrefix); ok {
		account, ok := a.book().Get(name)
		if !ok {
			return nil, &client.Problem{Title: "Not Found", Status: http.StatusNotFound,
				Detail: fmt.Sprintf("no account is called %.128q", name)}
		}
		return []voter{{accountPrefix + name, account.Voice()}}, nil
	}
	add := func(name, voice string) {
		if !slices.ContainsFunc(all, func(x voter) bool { return x.voice == voice }) {
			all = append(all, voter{name, voice})
		}
	}
	user, one := strings.CutPrefix(name, userPrefix)
	if err := trust.CheckName(user); err != nil {
		return nil, err
	}
	if account, ok := a.book().Get(user); ok && !one {
		add(accountPrefix+user, account.Voice())
	}
	service, of, _ := strings.Cut(user, "=")
	if account, ok := a.book().Get(service); ok && of != "" {
		add(userPrefix+user, account.UserVoice(of))
	}
	if len(all) == 0 || !one {
		add(userPrefix+user, trust.PersonVoice(user))
	}
	if !one {
		for _, account := range a.book().All() {
			if account.Role == trust.Trusted || account.Role == trust.Admin {
				add(userPrefix+account.Name+"="+user, account.UserVoice(user))
			}
		}
	}
	return all, nil
}

// whoVoted returns the voter who has voted since a time, or else the first one. It returns an error
// if several have.
func (a *Accounts) whoVoted(all []voter, since time.Time) ([]voter, error) {
	voices := make([]string, len(all))
	for i, x := range all {
		voices[i] = x.voice
	}
	var names []string
	var found []voter
	for i, voted := range a.opts.Engine.Voted(voices, since) {
		if voted {
			found, names = append(found, all[i]), append(names, all[i].name)
		}
	}
	switch len(found) {
	case 0:
		return all[:1], nil
	case 1:
		return found, nil
	}
	return nil, &client.Problem{Title: "Conflict", Status: http.StatusConflict,
		Detail: fmt.Sprintf("several have voted whom this name means; say which: %s",
			strings.Join(names[:min(len(names), 20)], ", "))}
}

// SetSecret implements [api.Users].
func (a *Accounts) SetSecret(ctx context.Context, name, protocol, secret string) error {
	if !slices.Contains(SecretProtocols(), protocol) {
		return fmt.Errorf("%w: protocol %.40q, want one of %q", bulkhead.ErrMalformed, protocol, SecretProtocols())
	}
	if secret != "" {
		if err := a.opts.CheckSecret(protocol, name, secret); err != nil {
			return err
		}
	}
	plain := []byte(secret)
	if protocol == api.PagesSecret && secret != "" {
		var err error
		if plain, err = hashPassword(secret); err != nil {
			return err
		}
	}
	return a.change(ctx, name, func(account *trust.Account) error {
		if secret == "" {
			delete(account.Sealed, protocol)
			return nil
		}
		sealed, err := a.opts.Sealer.Seal(name, protocol, plain)
		if err != nil {
			return err
		}
		if account.Sealed == nil {
			account.Sealed = make(map[string][]byte)
		}
		account.Sealed[protocol] = sealed
		return nil
	})
}

// Secret returns an account's secret for a protocol, and false if there is none. It returns an error
// if the account is closed.
func (a *Accounts) Secret(_ context.Context, protocol, name string) ([]byte, bool, error) {
	account, ok := a.book().Get(name)
	if !ok || len(account.Sealed[protocol]) == 0 {
		return nil, false, nil
	}
	if account.Closed {
		return nil, false, fmt.Errorf("%w: account %q is closed", bulkhead.ErrForbidden, name)
	}
	secret, err := a.opts.Sealer.Open(name, protocol, account.Sealed[protocol])
	if err != nil {
		return nil, false, err
	}
	return secret, true, nil
}

// Register makes a member's account with a secret for a protocol, as far as the trust policy has
// room for another one from an address. It changes nothing if the name is taken.
func (a *Accounts) Register(ctx context.Context, protocol, name string, secret []byte,
	from netip.Addr) (taken bool, err error) {
	if err := trust.CheckNewName(name); err != nil {
		return false, err
	}
	sealed, err := a.opts.Sealer.Seal(name, protocol, secret)
	if err != nil {
		return false, err
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if _, taken := a.book().Get(name); taken {
		return true, nil
	}
	evict, err := a.book().Room(from, clock.Now())
	if err != nil {
		return false, err
	}
	if evict != "" {
		if err := a.opts.Engine.RemoveAccount(ctx, evict); err != nil {
			return false, err
		}
	}
	return false, a.opts.Engine.PutAccount(ctx, trust.Account{
		Name: name, Role: trust.Member, Weight: a.book().Policy().StartWeight(from), Created: clock.Now().UTC(),
		From: from, Sealed: map[string][]byte{protocol: sealed},
	})
}
