package replica

import (
	"testing"

	"github.com/bulkhead-mail/bulkhead/internal/mesh/member"
	"github.com/bulkhead-mail/bulkhead/internal/mesh/wire"
	"github.com/bulkhead-mail/bulkhead/internal/testing/meshtest"
)

// asked records what a receiver hands to the part that publishes.
type asked struct {
	hello       chan struct{}
	wants, asks chan *wire.Message
	fills       chan *wire.Message
	pasts       chan wire.Past
}

func (a *asked) Greet() {
	select {
	case a.hello <- struct{}{}:
	default:
	}
}

func (a *asked) Want(m *wire.Message)     { a.wants <- m }
func (a *asked) Ask(m *wire.Message)      { a.asks <- m }
func (a *asked) Refilled(m *wire.Message) { a.fills <- m }
func (a *asked) Recall(p wire.Past)       { a.pasts <- p }

// A rig is a receiver that does not run, with one peer.
type rig struct {
	*meshtest.Rig
	receiver *Receiver
	asked    *asked
	p        *member.Peer // of t
	t        *origin
}

func newRig(t *testing.T, k *meshtest.Broker, change func(*member.Options)) *rig {
	t.Helper()
	r := &rig{Rig: meshtest.NewRig(t, k, change), asked: &asked{hello: make(chan struct{}, 1),
		wants: make(chan *wire.Message, 64), asks: make(chan *wire.Message, 64), fills: make(chan *wire.Message, 64),
		pasts: make(chan wire.Past, 64)}}
	r.receiver = New(r.Options, r.Book, r.State, r.Secrets, r.asked)
	r.receiver.Use(r.Bus)
	r.again()
	return r
}

// again drops the receiver's state of the peer.
func (r *rig) again() {
	r.receiver.Forget(r.Peer.Hint())
	r.t = r.receiver.origin(r.Peer.Hint())
	r.t.peer, _ = r.Find(r.Peer.Hint())
	r.p = &r.t.peer
}
