package bus

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"

	"github.com/bulkhead-mail/bulkhead/internal/mesh/wire"
	"github.com/bulkhead-mail/bulkhead/internal/natsdial"
)

// A hub hears the heads of its members, and publishes them in bundles. Each member thus receives a few
// messages a minute, whatever the number of members. A head that is the same as before, but for its
// number and time, is replaced by its sum. Members compare it with the head that they have, and ask the
// origin if they have another. A head that a node has asked for, or that may come from a second server
// with the same key, is always sent whole.

// BundleSubject is the subject of a hub's bundles of heads. Only the hub may publish there.
const BundleSubject = "bh.heads"

const (
	gatherShare = 60          // a changed head waits for at most that part of a heartbeat
	stillTicks  = 16          // of that time; sums wait for as many at most
	wholeBeats  = 4           // heartbeats after which a head is sent whole, so that its clock is known
	maxGathered = 4           // heads of one origin in one bundle
	maxOrigins  = 4096        // origins whose heads are remembered
	maxInbox    = 8 << 10     // messages that wait for the gatherer
	maxHead     = wire.MaxAsk // bytes of one head, which has 1,024 arrays at most
	headRoom    = 32          // bytes of a head in a bundle, or of its sum, besides the head itself
)

// A gatherer makes the bundles of a hub. Only its goroutine uses the fields below the channels.
type gatherer struct {
	opts  *Options
	names names
	keyID uint64
	conn  *nats.Conn
	send  func(bundle []byte) error
	inbox chan *nats.Msg
	quit  chan struct{}
	ended chan struct{}

	heads map[wire.Hint]*gathered
	whole map[wire.Hint][]wire.BundledHead // that wait for the next bundle
}

// gathered is what the gatherer knows of the last head of an origin.
type gathered struct {
	sum   wire.HeadSum
	stamp wire.Stamp
	at    time.Time // when it arrived
	sent  time.Time // when a head of the origin was last sent whole
	asked bool      // a node has asked the origin for it since
	still bool      // it was heard again since the last bundle
}

// newGatherer connects to the broker in this process.
func newGatherer(o *Options, ns *server.Server) (*gatherer, error) {
	g := &gatherer{opts: o, names: NewNames(o.KeyID), keyID: o.KeyID, inbox: make(chan *nats.Msg, maxInbox),
		quit: make(chan struct{}), ended: make(chan struct{}), heads: make(map[wire.Hint]*gathered),
		whole: make(map[wire.Hint][]wire.BundledHead)}
	// A message that finds no room is dropped; the next head shows that.
	ignore := nats.ErrorHandler(func(*nats.Conn, *nats.Subscription, error) {})
	conn, err := nats.Connect(ns.Addr().String(), nats.InProcessServer(ns), SignInOf(o.Identity),
		nats.Timeout(connectWait), nats.Name("heads"), ignore)
	// One channel keeps the order of asks and heads.
	for _, subject := range []string{HeadsOfAll, g.names.All(wire.KindAsk) + ".*"} {
		if err == nil {
			_, err = conn.ChanSubscribe(subject, g.inbox)
		}
	}
	if err != nil {
		conn.Close() // nil, or without a subscription
		return nil, fmt.Errorf("mesh: broker: %w", natsdial.Cleared(err))
	}
	g.conn, g.send = conn, func(bundle []byte) error { return conn.Publish(BundleSubject, bundle) }
	go g.run()
	return g, nil
}

// close ends the gatherer and its connection.
func (g *gatherer) close() {
	close(g.quit)
	<-g.ended
}

func (g *gatherer) run() {
	defer close(g.ended)
	defer g.conn.Close()
	every := max(g.opts.Heartbeat/gatherShare, time.Millisecond)
	changed, all := time.NewTicker(every), time.NewTicker(stillTicks*every)
	defer changed.Stop()
	defer all.Stop()
	for {
		var out [][]byte
		select {
		case <-g.quit:
			return
		case m := <-g.inbox:
			g.hear(m.Subject, m.Data, time.Now())
		case <-changed.C:
			out = g.bundles(false)
		case <-all.C:
			out = g.bundles(true)
		}
		for _, b := range out {
			// A lost bundle shows in the sums of the next one.
			_ = g.send(b)
		}
	}
}

// hear takes a head or an ask.
func (g *gatherer) hear(subject string, data []byte, now time.Time) {
	if t, ok := g.names.Parse(subject); ok && t.Kind == wire.KindAsk {
		if h := g.heads[t.Origin]; h != nil {
			h.asked = true
		}
		return
	}
	network, t, ok := headSubject(subject)
	if !ok || len(data) == 0 || len(data) > maxHead {
		return
	}
	head := wire.BundledHead{Network: network, Origin: t.Origin, Data: data}
	if network != g.keyID || g.changed(t.Origin, data, now) {
		g.add(head)
	}
}

// changed reports whether a head has to be sent whole.
func (g *gatherer) changed(from wire.Hint, data []byte, now time.Time) bool {
	stamp, sum, ok := contentOf(data)
	if !ok {
		return true // the members refuse it
	}
	h := g.heads[from]
	if h == nil {
		if len(g.heads) >= maxOrigins {
			clear(g.heads)
		}
		h = &gathered{}
		g.heads[from] = h
	}
	beat := g.opts.Heartbeat
	changed := sum != h.sum || h.asked || !stamp.Newer(h.stamp) || now.Sub(h.at) < 3*beat/4 ||
		now.Sub(h.sent) >= wholeBeats*beat
	h.sum, h.stamp, h.at, h.still = sum, stamp, now, !changed
	if changed {
		h.sent, h.asked = now, false
	}
	return changed
}

// contentOf returns the stamp and the sum of a head; ok is false if it is malformed.
func contentOf(data []byte) (stamp wire.Stamp, sum wire.HeadSum, ok bool) {
	e, err := wire.OpenEnvelope(data)
	if err != nil {
		return stamp, sum, false
	}
	return e.Content()
}

// add keeps a head for the next bundle. Of more heads of one origin than a bundle takes, the newest stays.
func (g *gatherer) add(h wire.BundledHead) {
	list := g.whole[h.Origin]
	if len(list) == maxGathered {
		list = list[:maxGathered-1]
	}
	g.whole[h.Origin] = append(list, h)
}

// bundles returns the messages with the heads that wait, and if all is set the sums of the other ones. There
// is one in any case then, so that members know that the hub has bundles.
func (g *gatherer) bundles(all bool) (out [][]byte) {
	var list []wire.BundledHead
	size := 0
	put := func(h wire.BundledHead) {
		cost := len(h.Data) + headRoom
		if size+cost > wire.MaxBundle && len(list) > 0 {
			out = append(out, wire.AppendBundle(nil, list))
			list, size = nil, 0
		}
		list, size = append(list, h), size+cost
	}
	for _, heads := range g.whole {
		for _, h := range heads {
			put(h)
		}
	}
	clear(g.whole)
	if all {
		for from, h := range g.heads {
			if h.still {
				put(wire.BundledHead{Network: g.keyID, Origin: from, Still: h.sum})
				h.still = false
			}
		}
	}
	if all || len(list) > 0 {
		out = append(out, wire.AppendBundle(nil, list))
	}
	return out
}

// headSubject returns the network and the topic of the subject of a head.
func headSubject(subject string) (network uint64, t wire.Topic, ok bool) {
	rest, _ := strings.CutPrefix(subject, "bh.")
	name, _, _ := strings.Cut(rest, ".")
	network, err := strconv.ParseUint(name, 16, 64)
	t, ok = names{name}.Parse(subject)
	return network, t, ok && err == nil && wire.NetworkName(network) == name && t.Kind == wire.KindHead && t.Key == ""
}
