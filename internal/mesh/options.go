package mesh

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	"github.com/bulkhead-mail/bulkhead/filter"
	"github.com/bulkhead-mail/bulkhead/internal/engine"
)

// An Engine is what the mesh needs of [engine.Engine], which says what each
// method does.
type Engine interface {
	Record(ctx context.Context, on bool) error
	TakeRounds(ctx context.Context) ([]engine.Part, []engine.ArrayState, error)
	Own() []engine.ArrayState
	Images(ctx context.Context, a engine.Array, start uint64) (version uint64, parts []engine.Part, err error)

	SetOrigins(ctx context.Context, origins []engine.Origin) error
	Origins() []engine.Origin
	ParsePart(p engine.Part) (engine.Parsed, error)
	ApplyRemote(ctx context.Context, origin string, parts []engine.Parsed) error
	Replica(origin string) []engine.ArrayState
	Shown(origin string, a engine.Array, start uint64) float64
	ForgetGenerations(ctx context.Context, origin string, since uint64) error
	Renew(ctx context.Context, origin string, incarnation uint64) error
	RenameOrigin(ctx context.Context, from, to string) error
	Incarnation(origin string) uint64
	FormerIncarnations(origin string) []engine.FormerIncarnation
	ForgetFormer(ctx context.Context, origin string) error
	Supersede(ctx context.Context, origin string, arrays []engine.ArrayKey) error
	Keeps(a engine.Array, start uint64) bool
	Room(origin string, n engine.Need) (now, later bool)
	RemoteMemory() engine.RemoteMemory
	Horizon(a engine.Array) uint64
	Floor(a engine.Array) uint64
	Knows(keyID uint64) bool

	Wounds(ctx context.Context) (engine.Wounds, error)
	Heal(ctx context.Context, peer string, a engine.Array, start uint64, image []byte) error
	HealSaid(ctx context.Context, a engine.Array, start uint64, images [][]byte, rounds []engine.Part) (pages int,
		err error)
	EndHealing(ctx context.Context) error
	ReplicaPages(ctx context.Context, origin string, a engine.Array, start uint64, g filter.Geometry,
		list []int) ([][]byte, error)
}

// A Mode says where the broker is.
type Mode string

// The modes.
const (
	Hub      Mode = "hub"      // in this process, for this node and its peers
	Join     Mode = "join"     // in the processes of hubs; all that are named are used at once
	External Mode = "external" // a NATS server, or a cluster of them, with JetStream
)

// A Role says what a node shares.
type Role string

// The roles.
const (
	Both      Role = "both"
	Subscribe Role = "subscribe" // counts peers, and tells them nothing
	Publish   Role = "publish"   // tells peers, and counts none: a spam trap
)

// Options is what a mesh needs to know. Zero fields have the defaults named,
// except those that are required.
type Options struct {
	Dir      string    // required: folder of the mesh's own state
	Identity *Identity // required
	Engine   Engine    // required; no other mesh uses it, or the one before has closed
	KeyID    uint64    // required: id of the network's key
	// Secret is that key, which a hub tells those who join by invitation; zero: nobody is
	// invited.
	Secret filter.Secret
	// Former is the secrets that the network had before, newest first.
	Former []filter.Secret
	// Switch has the node count under another secret of its network, and share anew; it
	// does not wait until that is done. It is called again until the mesh ends. nil: a
	// new secret is never taken.
	Switch func(filter.Secret)
	// Taker is the mesh of the same node that takes what the hubs of this one announce of
	// another secret: of an aggregate, that of its members. nil: this one does.
	Taker *Mesh
	// RekeyEvery is the time between two changes of the network's secret that a hub announces
	// by itself; 0: never. MayRekey returns why the node could not take another one now; nil: it
	// always can.
	RekeyEvery time.Duration
	MayRekey   func() error
	Store      string // incarnation of the store; a new one means that it was restored
	// Unsynced says that reports are acknowledged before they are on disk.
	Unsynced bool
	Name     string // of the node, for people
	// Organisations returns whose counts are in the arrays of an aggregate, in any order;
	// nil: the node's own alone.
	Organisations func() []Organisation

	Mode    Mode     // required
	Role    Role     // Both
	Listen  string   // of a hub: "host:port"
	Servers []string // of Join: "host:port" of each hub; of External: URLs of a cluster's servers
	// Credentials is a file that an external server's operator gave: a user
	// JWT with its key; or [NoCredentials]. CA is a PEM file of those who sign its certificate. Empty:
	// the node's own key, and the system's authorities. Cert and Key are PEM files of a
	// certificate that the node shows, and of its key; empty: none. All are read anew for
	// each connection.
	Credentials string
	CA          string
	Cert, Key   string
	// Domain is the JetStream domain of an external server that keeps the streams; empty: that of the server
	// which the node is connected to.
	Domain string

	Interval  time.Duration // between two deltas: 1.5 s
	Heartbeat time.Duration // between two heads: 30 s
	// MaxAdds and MaxListings bound what one peer counts and lists in a minute;
	// an hour's worth may come at once, and after a silence, up to StreamAge, what
	// the peer may have added meanwhile. A peer that exceeds one is quarantined. 1e6
	// and 1e5.
	MaxAdds     float64
	MaxListings float64

	StreamAge   time.Duration // how long the broker keeps deltas: 72 h
	StreamBytes int64         // and how much of them: 1 GiB
	Replicas    int           // of the streams, in a cluster: 1

	imageBytes int // of pages or rounds in one message, about: 384 KiB

	// Now is the wall clock; time.Now. Intervals are measured by the monotonic
	// clock, which nobody sets.
	Now func() time.Time
	Log *slog.Logger // nil discards
}

func (o *Options) complete() error {
	if o.Dir == "" || o.Identity == nil || o.Engine == nil {
		return fmt.Errorf("mesh: Dir, Identity and Engine are required")
	}
	if o.Role == "" {
		o.Role = Both
	}
	if o.Role != Both && o.Role != Subscribe && o.Role != Publish {
		return fmt.Errorf("mesh: role %.20q is none of %q, %q, %q", o.Role, Both, Subscribe, Publish)
	}
	defaults(&o.Interval, 1500*time.Millisecond)
	defaults(&o.Heartbeat, 30*time.Second)
	defaults(&o.MaxAdds, 1e6)
	defaults(&o.MaxListings, 1e5)
	defaults(&o.StreamAge, 72*time.Hour)
	defaults(&o.StreamBytes, 1<<30)
	defaults(&o.Replicas, 1)
	defaults(&o.imageBytes, 384<<10)
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	return nil
}

func defaults[T comparable](field *T, value T) {
	var zero T
	if *field == zero {
		*field = value
	}
}
