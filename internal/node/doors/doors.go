// Package doors makes the front doors of a node from its configuration: for each protocol a server,
// its sockets and its metrics.
//
// A front door is one line of [Set.list], one key of "[listen]" in the configuration, and a file
// here that is named after the protocol. The node gives a [Set] what all doors share, as [Options].
package doors

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/netip"
	"syscall"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/bulkhead-mail/bulkhead"
	"github.com/bulkhead-mail/bulkhead/client/admin"
	"github.com/bulkhead-mail/bulkhead/door"
	"github.com/bulkhead-mail/bulkhead/internal/api"
	"github.com/bulkhead-mail/bulkhead/internal/config"
	"github.com/bulkhead-mail/bulkhead/internal/lists"
	"github.com/bulkhead-mail/bulkhead/internal/logbook"
	"github.com/bulkhead-mail/bulkhead/internal/ratelimit"
	"github.com/bulkhead-mail/bulkhead/internal/web"
	"github.com/bulkhead-mail/bulkhead/signature"
)

// Options are the parts of a node that its doors share. All fields are required.
type Options struct {
	// Config returns the present configuration.
	Config func() *config.Config
	// Dir is the data folder.
	Dir string
	// Socket is the path of the unix socket for programs of this machine, "" for none. LocalAdmin is
	// the account of the machine's administrators.
	Socket     string
	LocalAdmin string
	// Clearinghouse returns the clearinghouse for one door, by the door's key.
	Clearinghouse func(door string) bulkhead.Counter
	// Judge answers without a record in the history, for doors that ask often.
	Judge bulkhead.Clearinghouse
	// Messages reads whole messages, and Hashing is how they are signed.
	Messages Messages
	Hashing  signature.Options
	// Whitelisted reports whether the whitelist has a source or a signature.
	Whitelisted func(*bulkhead.Source, []bulkhead.Signature) bool
	// Accounts are the accounts of clients with a shared secret.
	Accounts Accounts
	// Limits and Lists are shared by the doors for mail servers.
	Limits *ratelimit.Limiter
	Lists  *lists.Set
	// API holds the options of the API, except those that the HTTP door sets itself: Clearinghouse,
	// Page and Access. Status describes the node to the pages.
	API    api.Options
	Status web.Source
	// Memory bounds the messages of all doors. Failures slows down clients with a wrong secret.
	Memory   *door.Memory
	Failures *door.Failures
	// SetAside moves a damaged file of the data folder away, and returns the folder that holds it
	// then.
	SetAside func(file string) (folder string, err error)
	Registry *prometheus.Registry
	Log      *slog.Logger
}

// Messages reads whole messages. Its methods may be called concurrently.
type Messages interface {
	// Read returns all signatures of a message, and its source by its header.
	Read(ctx context.Context, raw []byte) ([]bulkhead.Signature, bulkhead.Source, error)
	// ReadVerified is Read for a message with an envelope sender, "" if unknown, and the domains
	// that the door has verified, as in [mail.Message.SourceVerified].
	ReadVerified(ctx context.Context, raw []byte, sender string, dkim []string,
		spf string) ([]bulkhead.Signature, bulkhead.Source, error)
	// Features returns the words and the style of a message that count, nil if the node does not
	// learn. It fails as Read does.
	Features(ctx context.Context, raw []byte) ([]string, error)
	// Cleared reports whether the whitelist has a message, by its envelope sender, its client and
	// its header, and if signatures is set by its signatures.
	Cleared(ctx context.Context, raw []byte, sender string, client netip.Addr, signatures bool) (bool, error)
}

// Accounts are the node's accounts, for protocols whose handshake needs a shared secret. A protocol
// is named as in [admin.User]. The methods may be called concurrently.
type Accounts interface {
	// Secret returns an account's secret for a protocol, and false if there is none. It returns an
	// error if the account is closed.
	Secret(ctx context.Context, protocol, name string) ([]byte, bool, error)
	// Register makes an account with a secret for a protocol. It changes nothing if the name is
	// taken.
	Register(ctx context.Context, protocol, name string, secret []byte, from netip.Addr) (taken bool, err error)
}

// A Set is the front doors of one node. The zero value has none; Open opens them. Once Open has
// returned, its methods may be called concurrently.
type Set struct {
	opts    Options
	rate    door.Source // of a client of any front door but HTTP, which has its own
	opened  []*opened
	places  int                      // connections of each door
	counted map[string]*countedHouse // clearinghouses by door
	rates   doorRates
}

// A Door is an open front door.
type Door struct {
	admin.Door
	// Serve serves until ctx ends and current clients are done. Abandon closes a door that was never
	// served.
	Serve   func(ctx context.Context) error
	Abandon func() error
}

// list lists every front door of this build, one line each: its key in [listen], its clients, how it
// is opened, and how its part of a configuration is checked.
func (s *Set) list() []frontDoor {
	return []frontDoor{
		{"http", "API and pages", s.openHTTP, checkHTTP},
		{"razor2", "Razor 2 clients", s.openRazor2, nil},
		{"razor_helper", "rspamd's razor module", s.openRazorHelper, nil},
		{"pyzor", "Pyzor clients", s.openPyzor, nil},
		{"pyzor_helper", "rspamd's pyzor module", s.openPyzorHelper, nil},
		{"dcc", "DCC clients", s.openDCC, nil},
		{"dccifd", "SpamAssassin, rspamd and Exim, as dccifd", s.openDccifd, checkDccifd},
		{"fuzzy", "rspamd's fuzzy_check", s.openFuzzy, checkFuzzy},
		{"milter", "Postfix and Sendmail", s.openMilter, checkMilter},
		{"policy", "Postfix policy delegation", s.openPolicy, nil},
		{"dnsbl", "lists through DNS", s.openDNSBL, checkDNSBL},
	}
}

// Open binds every enabled door. If spare is set, a door whose port is in use stays closed, except
// the HTTP door. After an error, [Set.All] returns the doors that were opened before it.
func (s *Set) Open(ctx context.Context, o Options, spare bool) error {
	s.opts, s.counted = o, make(map[string]*countedHouse)
	cfg := o.Config()
	s.rate.Set(doorLimits(cfg.Limits))
	s.shareDescriptors(cfg)
	addresses := make(map[string]string)
	for _, d := range cfg.Listen.Doors() {
		addresses[d.Key] = d.Address
	}
	for _, d := range s.list() {
		address := addresses[d.key]
		if address == "" {
			continue
		}
		o, err := d.open(ctx, address)
		if err != nil && spare && d.key != "http" && errors.Is(err, syscall.EADDRINUSE) {
			s.opts.Log.Warn("front door not opened", "reason", "another program uses its port", "door", d.key,
				"address", address, "consequence", "clients of this door are not served",
				"hint", "stop the other program and restart the node")
			continue
		}
		if err != nil {
			return fmt.Errorf("listen.%s: %w", d.key, err)
		}
		o.key, o.clients = d.key, d.clients
		s.opened = append(s.opened, o)
		// It cannot fail, because names are constant.
		s.opts.Registry.MustRegister(append(o.metrics, newDoorCollector(d.key, o, s.counted[d.key]))...)
	}
	if len(s.opened) == 0 {
		return &config.Error{Key: "listen", Detail: "no front door is enabled"}
	}
	return nil
}

// All returns the open doors, in the order of the configuration reference.
func (s *Set) All() (all []Door) {
	for _, o := range s.opened {
		all = append(all, Door{admin.Door{Name: o.key, Address: o.address}, o.serve, o.abandon})
	}
	return all
}

// Addresses returns the open doors with the addresses that clients use.
func (s *Set) Addresses() (all []admin.Door) {
	for _, d := range s.All() {
		all = append(all, d.Door)
	}
	return all
}

// Sums returns what the clients of each door have asked and reported since the start.
func (s *Set) Sums() map[string]logbook.Sum {
	sums := make(map[string]logbook.Sum, len(s.counted))
	for name, house := range s.counted {
		sums[name] = house.sum()
	}
	return sums
}

// Page returns the doors for the status page, with their rates over the last minutes.
func (s *Set) Page(now time.Time) (all []web.Door) {
	counts := s.counts()
	for _, o := range s.opened {
		shown := web.Door{Name: o.key, Address: o.address, Serves: o.clients}
		s.rates.set(&shown, now, counts[o.key])
		all = append(all, shown)
	}
	return all
}

// Prepare checks the parts of a configuration that open doors can apply, and returns a function that
// applies them. list returns a list of the configuration by its name, nil for no such list.
func (s *Set) Prepare(cfg *config.Config, list func(name string) *lists.Handle) (takeOver func() error, err error) {
	var all []func() error
	p := &proposal{Config: cfg, list: list}
	for _, o := range s.opened {
		if o.prepare == nil {
			continue
		}
		door, err := o.prepare(p)
		if err != nil {
			return nil, err
		}
		all = append(all, door)
	}
	return func() error {
		var errs []error
		for _, take := range all {
			errs = append(errs, take())
		}
		s.rate.Set(doorLimits(cfg.Limits))
		return errors.Join(errs...)
	}, nil
}

// Check checks the parts of a configuration that only a door can check, such as policies, keys and
// zones, and changes nothing. list returns a list of the configuration by its name.
func Check(cfg *config.Config, list func(name string) *lists.Handle) error {
	p := &proposal{Config: cfg, list: list}
	var errs []error
	for _, d := range new(Set).list() {
		if d.check != nil {
			errs = append(errs, d.check(p))
		}
	}
	return errors.Join(errs...)
}

// houseFor returns the clearinghouse for a door, with its requests counted.
func (s *Set) houseFor(door string) bulkhead.Counter {
	counted := &countedHouse{Counter: s.opts.Clearinghouse(door)}
	s.counted[door] = counted
	return counted
}

// doorRate returns the rate limit of a front door's clients, which follows the configuration, and
// the exempt clients.
func (s *Set) doorRate(l config.Limits) (door.Rate, []netip.Prefix) {
	_, exempt := doorLimits(l)
	return door.Rate{Source: &s.rate}, exempt
}

// doorLimits returns the configured rate limit of a front door's clients, and the exempt clients.
func doorLimits(l config.Limits) (door.Rate, []netip.Prefix) {
	rate := door.Rate{PerSecond: l.Rate, Burst: l.Burst}
	if l.Loopback {
		return rate, nil
	}
	return rate, door.Loopback()
}

// protocolAccounts are the accounts of one protocol: [razor2.Accounts] and [pyzor.Accounts].
type protocolAccounts struct {
	accounts Accounts
	protocol string
}

// Secret implements [razor2.Accounts] and [pyzor.Accounts].
func (a *protocolAccounts) Secret(ctx context.Context, name string) ([]byte, bool, error) {
	return a.accounts.Secret(ctx, a.protocol, name)
}
