// Package meshtest has what tests of replication share: a broker in memory with faults, a stub of an
// engine, and the parts of a node that its rooms work on.
package meshtest

import (
	"context"
	"log/slog"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/bulkhead-mail/bulkhead/internal/mesh/member"
	"github.com/bulkhead-mail/bulkhead/internal/mesh/wire"
	"github.com/bulkhead-mail/bulkhead/internal/testing/enginetest"
)

// Run runs a test with a clock of its own, and a broker without faults.
func Run(t *testing.T, f func(t *testing.T, k *Broker)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) { f(t, NewBroker(rand.New(rand.NewPCG(1, 1)))) })
}

// Folder returns a folder with a new identity in it.
func Folder(t testing.TB) (string, *member.Identity) {
	t.Helper()
	dir := t.TempDir()
	id, err := member.OpenIdentity(dir)
	if err != nil {
		t.Fatal(err)
	}
	return dir, id
}

// Identity returns a new identity.
func Identity(t testing.TB) *member.Identity {
	t.Helper()
	_, id := Folder(t)
	return id
}

// Rotated returns an identity that replaced another.
func Rotated(t testing.TB) (old, to *member.Identity) {
	t.Helper()
	dir, _ := Folder(t)
	old, _, err := member.RotateIdentity(dir)
	if err != nil {
		t.Fatal(err)
	}
	if to, err = member.OpenIdentity(dir); err != nil || to.Predecessor() != old.ID() || old.Predecessor() != "" ||
		to.ID() == old.ID() {
		t.Fatalf("%v after %v: %v", to, old, err)
	}
	return old, to
}

// Options returns the options of a node without a connection.
func Options(t testing.TB) member.Options {
	t.Helper()
	dir, id := Folder(t)
	return member.Options{Dir: dir, Identity: id, Engine: enginetest.Small(t, nil), KeyID: enginetest.Secret.ID(),
		Mode: member.Join}
}

// A Rig is the parts of a node that does not run, on a stub of an engine, with one peer.
type Rig struct {
	*member.Book
	Options *member.Options
	State   *member.State
	Secrets *member.Secrets
	Engine  *Engine
	Bus     *SentBus
	Peer    *member.Identity
	Log     *strings.Builder
}

// unwatched ignores the changes of a peer list.
type unwatched struct{}

func (unwatched) Added(wire.Hint)                     {}
func (unwatched) Dropped(string, wire.Hint) error     { return nil }
func (unwatched) Between(f func(ctx context.Context)) { f(context.Background()) }

// NewRig returns a rig with a connection to a broker. change may be nil.
func NewRig(t *testing.T, k *Broker, change func(*member.Options)) *Rig {
	t.Helper()
	o := Options(t)
	r := &Rig{Engine: &Engine{Engine: enginetest.Small(t, nil)}, Peer: Identity(t), Bus: &SentBus{Bus: k.Connect()},
		Log: new(strings.Builder), Options: &o}
	o.Engine = r.Engine
	o.Log = slog.New(slog.NewTextHandler(r.Log, nil))
	if change != nil {
		change(&o)
	}
	err := o.Complete()
	if err == nil {
		r.Book, err = member.OpenBook(&o, unwatched{})
	}
	if err == nil {
		r.State, err = member.OpenState(&o)
	}
	if err == nil {
		r.Secrets, err = member.OpenSecrets(&o, r.Book)
	}
	if err == nil {
		_, err = r.State.Begin(r.Engine.Own(), false)
	}
	if err == nil {
		err = r.AddPeer(t.Context(), r.Peer.ID(), "peer", 1)
	}
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// Entry returns a copy of what the list has of the peer.
func (r *Rig) Entry() (out member.Entry) {
	r.Each(r.List(), func(p *member.Peer, s *member.Stats) {
		if p.Key == r.Peer.Public() {
			out = member.Entry{Peer: *p, Stats: *s}
		}
	})
	return out
}

// Refused returns the reasons of the refusals of the peer's messages that f causes.
func (r *Rig) Refused(f func()) string {
	before := maps.Clone(r.Entry().Refusals.Count)
	f()
	var out []string
	for reason, n := range r.Entry().Refusals.Count {
		if n > before[reason] {
			out = append(out, reason)
		}
	}
	slices.Sort(out)
	return strings.Join(out, ", ")
}
