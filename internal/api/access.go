package api

import (
	"context"
	"fmt"
	"net/http"
	"net/netip"
	"strings"
	"time"

	"github.com/bulkhead-mail/bulkhead"
	"github.com/bulkhead-mail/bulkhead/door"
)

// A Who is a set of clients that may do something without a token.
type Who uint8

// The values of Who.
const (
	Loopback Who = iota // clients on this machine
	Everyone            // every client
	Nobody              // no client: a token is needed
)

// ParseWho reads "loopback", "all" or "none".
func ParseWho(text string) (Who, error) {
	switch text {
	case "loopback":
		return Loopback, nil
	case "all":
		return Everyone, nil
	case "none":
		return Nobody, nil
	}
	return 0, fmt.Errorf("%w: %.40q, want loopback, all or none", bulkhead.ErrMalformed, text)
}

// Access holds the rights and limits of clients. A limit of 0 stands for the default that its
// comment gives.
type Access struct {
	AnonymousCheck  Who            // clients that may check, and view the node, without a token
	AnonymousReport Who            // clients that may report and revoke without a token
	TrustedProxies  []netip.Prefix // proxies whose X-Forwarded-For is trusted
	MaxBody         int64          // largest request body, bytes; 32 MiB
	MaxSignatures   int            // in one message; 1024
	MaxBatch        int            // messages in one request; 1024
	Rate            door.Rate      // of one client address, IPv6: one /64; the zero Rate sets no limit
	LimitLoopback   bool           // apply Rate to loopback clients too
}

// settings is the Access in force, with defaults filled in.
type settings struct {
	Access
	limiter *door.Limiter
}

func newSettings(a Access) *settings {
	if a.MaxBody == 0 {
		a.MaxBody = 32 << 20
	}
	if a.MaxSignatures == 0 {
		a.MaxSignatures = 1024
	}
	if a.MaxBatch == 0 {
		a.MaxBatch = 1024
	}
	var exempt []netip.Prefix
	if !a.LimitLoopback {
		exempt = door.Loopback()
	}
	return &settings{Access: a, limiter: door.NewLimiter(a.Rate, exempt)}
}

// A need is the right that a route requires.
type need uint8

const (
	open   need = iota // nothing
	check              // may check
	report             // may report
	manage             // is an administrator
)

// Accounts identifies the holders of tokens. Its method may be called concurrently.
type Accounts interface {
	// Authenticate returns the account that holds a bearer token, or an error
	// that wraps [bulkhead.ErrUnauthorised].
	Authenticate(ctx context.Context, token string) (account string, err error)
}

// PagesSecret is the name that [Users] and the API use for an account's password for the pages, in
// the place of a protocol.
const PagesSecret = "pages"

// Passwords is an [Accounts] whose accounts may have a password for the pages. Its method may be
// called concurrently.
type Passwords interface {
	// AuthenticatePassword returns the account with a name and password, or an error that
	// wraps [bulkhead.ErrUnauthorised].
	AuthenticatePassword(ctx context.Context, name, password string) (account string, err error)
}

// A Peer is the process at the other end of a unix socket, as the system names it.
type Peer struct {
	UID   uint32 // effective user when it connected
	Admin bool   // may administer the node without a token
}

// peerKey is the key of a request's [Peer] in its context.
type peerKey struct{}

// WithPeer returns a context for the requests of a connection through a unix socket.
func WithPeer(ctx context.Context, p Peer) context.Context {
	return context.WithValue(ctx, peerKey{}, p)
}

// peerOf returns the process that sent r through a unix socket; ok is false for a request by TCP.
func peerOf(r *http.Request) (p Peer, ok bool) {
	p, ok = r.Context().Value(peerKey{}).(Peer)
	return p, ok
}

// loopback is the address of clients on unix sockets, who have the rights of this machine.
var loopback = netip.AddrFrom4([4]byte{127, 0, 0, 1})

// identify returns the address of the sender of r, and whether the sender is on this machine. It
// refuses what a proxy forwards to a unix socket, because the proxy's clients would have the rights of
// its user.
func (s *settings) identify(r *http.Request) (addr netip.Addr, local bool, err error) {
	if _, ok := peerOf(r); !ok {
		addr, local = s.client(r)
		return addr, local, nil
	}
	if proxied(r) {
		return loopback, false, fmt.Errorf("%w: the node's socket is for programs of this machine, not for a proxy: "+
			"let it forward to listen.http", bulkhead.ErrForbidden)
	}
	return loopback, true, nil
}

// origin names the sender of a request for the records: a user of this machine, or an address.
func (r *request) origin() string {
	if p, ok := peerOf(r.Request); ok {
		return fmt.Sprintf("user %d of this machine", p.UID)
	}
	return r.who.Addr.String()
}

// authorise returns the sender of r, or an error if its rights are not enough for n.
func (s *Server) authorise(r *http.Request, set *settings, addr netip.Addr, local bool,
	n need) (bulkhead.Reporter, error) {
	who := bulkhead.Reporter{Addr: addr}
	peer, _ := peerOf(r)
	if header := r.Header.Get("Authorization"); header != "" {
		scheme, token, _ := strings.Cut(header, " ")
		if !strings.EqualFold(scheme, "Bearer") || s.opts.Accounts == nil {
			return who, fmt.Errorf("%w: this node authenticates by bearer tokens only", bulkhead.ErrUnauthorised)
		}
		account, err := s.opts.Accounts.Authenticate(r.Context(), strings.TrimSpace(token))
		if err != nil {
			s.opts.Failures.Slow(r.Context(), doorName, addr)
			return who, err
		}
		who.Account = account
	} else if c, err := r.Cookie(cookieName); err == nil {
		// The cookie of an ended session counts as no cookie.
		who.Account, _ = s.sessions.account(c.Value, time.Now())
	} else if peer.Admin {
		// It checks and reports as every program of this machine does. For everything else the
		// machine's administrators share an account, so that the record names one.
		if n == check || n == report {
			return who, nil
		}
		who.Account = s.opts.LocalAdmin
	}
	switch n {
	case check:
		return who, allowed(set.AnonymousCheck, who, local, "check")
	case report:
		return who, allowed(set.AnonymousReport, who, local, "report")
	case manage:
		err := s.mayAdminister(r.Context(), who)
		if err != nil && peer.Admin && r.Header.Get("Authorization") == "" && s.opts.Users != nil {
			return who, nil // the account may be closed or gone; the machine's administrator stays
		}
		return who, err
	}
	return who, nil
}

func allowed(anonymous Who, who bulkhead.Reporter, local bool, what string) error {
	switch {
	case who.Account != "" || anonymous == Everyone || anonymous == Loopback && local:
		return nil
	case anonymous == Loopback:
		return fmt.Errorf("%w: clients on other machines need a token to %s", bulkhead.ErrUnauthorised, what)
	}
	return fmt.Errorf("%w: a token is needed to %s", bulkhead.ErrUnauthorised, what)
}

func (s *Server) mayAdminister(ctx context.Context, who bulkhead.Reporter) error {
	switch {
	case who.Account == "":
		return fmt.Errorf("%w: an administrator's token is needed", bulkhead.ErrUnauthorised)
	case s.opts.Users == nil || !s.opts.Users.IsAdmin(ctx, who.Account):
		return fmt.Errorf("%w: account %q is not an administrator", bulkhead.ErrForbidden, who.Account)
	}
	return nil
}

// maySpeak returns an error if a client may not count sightings of others or report for them. A
// client that may do so gains no power by it: it could list and count as much under its own name.
func (s *Server) maySpeak(r *request) error {
	switch who := r.who; {
	case who.Account == "" && r.local:
		return nil
	case who.Account == "":
		return fmt.Errorf("%w: a trusted account's token is needed", bulkhead.ErrUnauthorised)
	case s.opts.Users == nil || !s.opts.Users.IsTrusted(r.Context(), who.Account):
		return fmt.Errorf("%w: account %q is not trusted", bulkhead.ErrForbidden, who.Account)
	}
	return nil
}
