package upstream

import (
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"path/filepath"
	"sync"
	"sync/atomic"

	"github.com/bulkhead-mail/bulkhead/internal/config"
)

// A bearer is the token that an edge sends to a node.
type bearer struct{ atomic.Pointer[string] }

// A carrier sends requests with the current token.
type carrier struct {
	*http.Transport
	token *bearer
}

// RoundTrip implements [http.RoundTripper].
func (c *carrier) RoundTrip(r *http.Request) (*http.Response, error) {
	if token := *c.token.Load(); token != "" {
		r = r.Clone(r.Context())
		r.Header.Set("Authorization", "Bearer "+token)
	}
	return c.Transport.RoundTrip(r)
}

// tokens are the tokens of an edge, by the name of the shard; "" is the only upstream.
type tokens struct {
	read func(path string) (string, error)

	mu  sync.Mutex
	all map[string]*bearer
}

func newTokens(read func(string) (string, error)) *tokens {
	return &tokens{read: read, all: make(map[string]*bearer)}
}

// open reads the token for a shard. After an error the token is "".
func (t *tokens) open(name string, s *config.Shards, u *config.Upstream) (*bearer, error) {
	token, err := tokenFor(name, s, u, t.read)
	t.mu.Lock()
	defer t.mu.Unlock()
	b := t.all[name]
	if b == nil {
		b = new(bearer)
		t.all[name] = b
	}
	b.Store(&token)
	return b, err
}

// tokenFor reads the file with the token for a shard: in the folder of the tokens, or else the one of [upstream]. It
// returns "" if none is configured.
func tokenFor(name string, s *config.Shards, u *config.Upstream, read func(string) (string, error)) (string, error) {
	path := u.TokenFile
	if name != "" && s.Tokens != "" {
		path = filepath.Join(s.Tokens, name)
	}
	if path == "" {
		return "", nil
	}
	token, err := read(path)
	if errors.Is(err, fs.ErrNotExist) && path != u.TokenFile && u.TokenFile != "" {
		path = u.TokenFile
		token, err = read(path)
	}
	if err == nil && token == "" {
		err = fmt.Errorf("%s is empty", path)
	}
	if err != nil {
		return "", err
	}
	return token, nil
}

// CheckTokens reads the files with tokens that a configuration names, as far as they are known without the map.
func CheckTokens(cfg *config.Config, read func(string) (string, error)) error {
	if _, err := tokenFor("", &cfg.Shards, &cfg.Upstream, read); err != nil {
		return &config.Error{Key: "upstream.token_file", Detail: err.Error()}
	}
	return nil
}

// Prepare reads the tokens again: they may be changed on the nodes while the edge runs. takeOver makes the edge use
// them, and the default and the domain of [shards].
func (u *Upstream) Prepare(cfg *config.Config) (takeOver func() error, err error) {
	u.tokens.mu.Lock()
	defer u.tokens.mu.Unlock()
	fresh := make(map[string]string)
	var errs []error
	for name := range u.tokens.all {
		if name != "" && !u.follower.State().Map.Has(name) { // its file may be gone as well
			continue
		}
		token, err := tokenFor(name, &cfg.Shards, &cfg.Upstream, u.o.Read)
		if err != nil {
			key := "shards.tokens"
			if name == "" {
				key = "upstream.token_file"
			}
			errs = append(errs, &config.Error{Key: key, Detail: err.Error()})
			continue
		}
		fresh[name] = token
	}
	return func() error {
		u.tokens.mu.Lock()
		for name, token := range fresh {
			u.tokens.all[name].Store(&token)
		}
		u.tokens.mu.Unlock() // a new map needs it
		u.edge.Prefer(cfg.Shards.Default, cfg.Shards.Domain)
		return nil
	}, errors.Join(errs...)
}
