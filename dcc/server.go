package dcc

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/netip"
	"sync"
	"sync/atomic"
	"time"

	"github.com/bulkhead-mail/bulkhead"
	digests "github.com/bulkhead-mail/bulkhead/digest/dcc"
	"github.com/bulkhead-mail/bulkhead/door"
)

// Defaults of a [Server].
const (
	DefaultServerID = 101
	DefaultBrand    = "bulkhead"
	DefaultWriters  = 6    // groups of reports under way at once
	maxQueued       = 1024 // batches of reports that wait
	maxClockSkew    = 64   // seconds by which the clock of an administrator may differ
)

// An Account is what a server knows about a client-id or server-id.
type Account struct {
	// Passwords are one or two passwords of 1 to 32 bytes; either is accepted.
	Passwords []string
	// Name is the name of the account whose weight this client's spam reports have on the blocklist;
	// "" means the weight of an anonymous client at its address.
	Name string
}

// A Server is a DCC server. Set the fields before Serve and do not change them
// afterwards. The zero value with a Clearinghouse serves anonymous clients of the
// machine itself.
type Server struct {
	Clearinghouse bulkhead.Clearinghouse
	// ServerID is the id of this server, 100 to 32767; 0 means DefaultServerID.
	ServerID uint32
	// Brand becomes part of the header X-DCC-brand-Metrics: letters and digits,
	// at most 32; "" means DefaultBrand.
	Brand string
	// Account looks up an ID; nil knows none. It may be called concurrently. IDs of
	// servers (100 to 32767) may also delete.
	Account func(id uint32) (Account, bool)
	// AnonymousFrom lists the networks whose anonymous clients are served; nil
	// means the machine itself.
	AnonymousFrom []netip.Prefix
	// Failures is notified of wrong passwords, which the log sums up. nil means no notification.
	Failures *door.Failures
	// Blocked lists networks that get no answer.
	Blocked []netip.Prefix
	// Keep lists the types that are counted; nil means Body, Fuz1 and Fuz2.
	Keep []digests.Type
	// Whitelist returns the checksums that are ok, ok2 or many regardless of counts; nil
	// means none.
	Whitelist func() *Whitelist
	// Rate limits the packets of one client. AnonymousRate also limits the packets of one anonymous
	// client, and AnonymousTotal the packets of all anonymous clients together. None of them
	// applies to the clients in Exempt.
	Rate, AnonymousRate, AnonymousTotal door.Rate
	Exempt                              []netip.Prefix
	// Writers is how many groups of reports may be counted at once; 0 means
	// DefaultWriters. A group is all waiting reports, up to a limit.
	Writers int
	// Memory bounds the memory of datagrams, see [door.PacketServer]; nil sets no bound.
	Memory *door.Memory
	Now    func() time.Time // nil means time.Now
	Log    *slog.Logger     // nil discards
	Stats  Stats

	setup   setup
	serving serving
	limits  limits
	recent  recent
	pools   pools
}

// A setup is what a server makes of its fields before it serves.
type setup struct {
	once      sync.Once
	exposable bool // the clients to serve are configured
	book      *book
	started   time.Time
}

// A serving is the sockets of a server and the work behind them.
type serving struct {
	packets door.PacketServer
	writing door.Work
	work    chan *reportBatch // of the writers
}

// The limits are the rate limits of one anonymous client, and of all together, and what anonymous
// clients may be sent.
type limits struct {
	anonymous, total *door.Limiter
	credit           door.Credit
}

// The pools hold the memory of answers, reports and groups of reports.
type pools struct{ scratch, items, batches sync.Pool }

// Stats are the counters of a [Server]; all may be read at any time.
type Stats struct {
	NOPs, Queries, Reports, Repeated  atomic.Int64
	Spam, Deletes, Admin              atomic.Int64
	Anonymous, BadPassword, Malformed atomic.Int64
	Limited, Faults                   atomic.Int64
}

func (s *Server) prepare() error {
	var err error
	s.setup.once.Do(func() {
		s.setup.exposable = s.Account != nil || s.AnonymousFrom != nil
		if s.ServerID == 0 {
			s.ServerID = DefaultServerID
		}
		if s.Brand == "" {
			s.Brand = DefaultBrand
		}
		if s.AnonymousFrom == nil {
			s.AnonymousFrom = door.Loopback()
		}
		if s.Writers <= 0 {
			s.Writers = DefaultWriters
		}
		if s.Now == nil {
			s.Now = time.Now
		}
		if s.Log == nil {
			s.Log = slog.New(slog.DiscardHandler)
		}
		s.setup.started = s.Now()
		s.serving.packets.Handler, s.serving.packets.Log, s.serving.packets.MaxPacket = s.packets, s.Log, maxPacket
		s.serving.packets.Rate, s.serving.packets.Exempt = s.Rate, s.Exempt
		s.serving.packets.MaxDetached = 4 * door.DefaultMaxDetached
		s.serving.packets.Memory = s.Memory
		s.setup.book = newBook(s.Clearinghouse, s.Keep)
		s.limits.anonymous = door.NewLimiter(s.AnonymousRate, s.Exempt)
		s.limits.total = door.NewLimiter(s.AnonymousTotal, nil)
		s.recent.init()
		s.pools.scratch.New = func() any { return new(scratch) }
		s.pools.items.New = func() any { return new(item) }
		s.pools.batches.New = func() any { return new(reportBatch) }
	})
	if s.ServerID < MinServerID || s.ServerID > MaxServerID {
		err = fmt.Errorf("dcc: server id %d, want %d to %d", s.ServerID, MinServerID, MaxServerID)
	}
	return errors.Join(err, checkBrand(s.Brand))
}

func checkBrand(brand string) error {
	const maxBrand = 32
	if len(brand) > maxBrand {
		return fmt.Errorf("dcc: brand %.40q of %d bytes, limit %d", brand, len(brand), maxBrand)
	}
	for _, c := range []byte(brand) {
		if (c < 'a' || c > 'z') && (c < 'A' || c > 'Z') && (c < '0' || c > '9') {
			return fmt.Errorf("dcc: brand %.40q: letters and digits only", brand)
		}
	}
	return nil
}

// ServePacket answers the datagrams of pc until Shutdown, then returns door.ErrServerClosed; or
// until pc fails. It refuses to serve an address that others can reach unless Account or
// AnonymousFrom restricts the clients. It may be called concurrently, for several sockets; see
// [door.ListenPackets].
func (s *Server) ServePacket(pc net.PacketConn) error {
	err := s.prepare()
	if err == nil {
		err = s.checkExposure(pc.LocalAddr())
	}
	if err != nil {
		pc.Close()
		return err
	}
	return s.serving.writing.During(s.startWriting, func() error { return s.serving.packets.ServePacket(pc) })
}

// Shutdown ends the server when current reports are counted, or ctx ends; see
// [door.PacketServer.Shutdown].
func (s *Server) Shutdown(ctx context.Context) error { return s.serving.packets.Shutdown(ctx) }

// PacketStats returns the counters of the datagrams.
func (s *Server) PacketStats() *door.PacketStats { return &s.serving.packets.Stats }

// startWriting starts the goroutines that count reports, and returns a function that
// ends them.
func (s *Server) startWriting() (end func()) {
	work := make(chan *reportBatch, maxQueued)
	s.serving.work = work
	var writers sync.WaitGroup
	for range s.Writers {
		writers.Go(func() {
			var a asking
			for b := range work {
				s.gather(b, work)
				s.write(b, &a)
			}
		})
	}
	following, stop := context.WithCancel(context.Background())
	writers.Go(func() { s.setup.book.follow(following) })
	return func() {
		close(work)
		stop()
		writers.Wait()
	}
}

func (s *Server) checkExposure(a net.Addr) error {
	if !s.setup.exposable && door.Exposed(a) {
		return fmt.Errorf("dcc: %s can be reached from the network: configure clients, or the networks of anonymous ones", a)
	}
	return nil
}
