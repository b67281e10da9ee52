package member

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	"github.com/bulkhead-mail/bulkhead/filter"
	"github.com/bulkhead-mail/bulkhead/internal/engine"
	"github.com/bulkhead-mail/bulkhead/internal/lesson"
	"github.com/bulkhead-mail/bulkhead/internal/mesh/wire"
)

// An Engine has the methods of [engine.Engine] that the mesh uses; they are documented there.
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
	HealPublished(ctx context.Context, a engine.Array, start uint64, images [][]byte,
		rounds []engine.Part) (pages int, err error)
	EndHealing(ctx context.Context) error
	Adopt(ctx context.Context, start uint64, shapes map[engine.Array]filter.Geometry) error
	TakeBack(ctx context.Context, peer string, a engine.Array, start uint64, image []byte) error
	ReplicaPages(ctx context.Context, origin string, a engine.Array, start uint64, g filter.Geometry,
		list []int) ([][]byte, error)
}

// A Mode selects the broker.
type Mode string

// The modes.
const (
	Hub      Mode = "hub"      // in this process, for this node and its peers
	Join     Mode = "join"     // in the processes of hubs; all configured hubs are used at once
	External Mode = "external" // a NATS server, or a cluster of them, with JetStream
)

// A Role selects what a node shares.
type Role string

// The roles.
const (
	Both      Role = "both"
	Subscribe Role = "subscribe" // counts peers, and publishes no counts
	Publish   Role = "publish"   // publishes counts, and counts no peer: a spam trap
)

// Options are the settings of a mesh. Zero fields have the defaults given here, except required
// ones.
type Options struct {
	Dir      string    // required: folder of the mesh's own state
	Identity *Identity // required
	Engine   Engine    // required; used by no other open mesh
	KeyID    uint64    // required: ID of the network's secret
	// Secret is that secret. A hub sends it to nodes that join by invitation; zero: invitations are
	// disabled.
	Secret filter.Secret
	// Former is the secrets that the network had before, newest first.
	Former []filter.Secret
	// Switch makes the node count under another secret of its network, and share anew. It returns
	// before that is done, and is called again until the mesh ends. nil: a new secret is never
	// taken.
	Switch func(filter.Secret)
	// Taker is the mesh of the same node that takes secrets announced by the hubs of this one. For
	// an aggregate it is the mesh of the members. nil: this mesh.
	Taker Taker
	// RekeyEvery is the time between two changes of the network's secret that a hub announces by
	// itself; 0: never. MayRekey returns why the node could not take another secret now; nil: it
	// always can.
	RekeyEvery time.Duration
	MayRekey   func() error
	Store      string // incarnation of the store; a new one means that it was restored
	// Unsynced is set if reports are acknowledged before they are on disk.
	Unsynced bool
	Name     string // of the node, for people
	// Organisations returns the organisations whose counts are in the arrays of an aggregate, in
	// any order; nil: the counts are the node's own alone.
	Organisations func() []wire.Organisation

	// Lessons is what the node learns together with its peers of words and style; nil: it does not.
	Lessons *lesson.Exchange

	Mode    Mode     // required
	Role    Role     // Both
	Listen  string   // of a hub: "host:port"
	Servers []string // of Join: "host:port" of each hub; of External: URLs of a cluster's servers
	// Credentials is a file from an external server's operator, with a user JWT and its key, or
	// [natsdial.NoCredentials]. CA is a PEM file of the authorities that sign the server's certificate. If
	// they are empty, the node uses its own key and the system's authorities. Cert and Key are PEM
	// files of the node's client certificate and its key; empty: none. All are read anew for each
	// connection.
	Credentials string
	CA          string
	Cert, Key   string
	// Domain is the JetStream domain of an external server that keeps the streams; empty: the
	// domain of the server to which the node is connected.
	Domain string

	Interval  time.Duration // between two deltas: 1.5 s
	Heartbeat time.Duration // between two heads: 30 s
	// MaxAdds and MaxListings bound the counts and listings that one peer adds in a minute; the
	// defaults are 1e6 and 1e5. An hour's allowance may arrive at once. After a silence, the
	// allowance of its time, up to StreamAge, may arrive as well. A peer that exceeds a bound is
	// quarantined.
	MaxAdds     float64
	MaxListings float64

	StreamAge   time.Duration // how long the broker keeps deltas: 72 h
	StreamBytes int64         // and how many bytes of them: 1 GiB
	Replicas    int           // of the streams, in a cluster: 1

	MessageBytes int // of pages or rounds in one message, approximately: 32 KiB

	// Now is the wall clock; time.Now by default. Intervals are measured by the monotonic clock,
	// which cannot be set.
	Now func() time.Time
	Log *slog.Logger // nil discards
}

// A Taker is a mesh that takes the secrets which the hubs of another mesh of its node announce.
type Taker interface {
	// Announcements returns the secrets of the mesh; nil if it is absent.
	Announcements() *Secrets
}

// Complete sets the defaults, and returns an error if a required option is absent or one is invalid.
func (o *Options) Complete() error {
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
	defaults(&o.MessageBytes, 32<<10)
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
