package bus

import (
	"bytes"
	"crypto/ed25519"
	"encoding/binary"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/bulkhead-mail/bulkhead/internal/mesh/wire"
	"github.com/bulkhead-mail/bulkhead/internal/testing/bubble"
)

type signer struct{ key ed25519.PrivateKey }

func (s signer) Public() wire.Public     { return wire.Public(s.key.Public().(ed25519.PublicKey)) }
func (s signer) Sign(text []byte) []byte { return ed25519.Sign(s.key, text) }

// A gathering is a gatherer without a broker, and a member whose heads it hears.
type gathering struct {
	*gatherer
	from  signer
	stamp wire.Stamp
	now   time.Time
}

func newGathering(t *testing.T) *gathering {
	t.Helper()
	_, key, err := ed25519.GenerateKey(nil)
	if err != nil {
		t.Fatal(err)
	}
	return &gathering{gatherer: &gatherer{opts: &Options{Heartbeat: 30 * time.Second}, names: NewNames(7), keyID: 7,
		heads: make(map[wire.Hint]*gathered), whole: make(map[wire.Hint][]wire.BundledHead)}, from: signer{key},
		stamp: wire.Stamp{Incarnation: 10, Boot: 20, At: 30}, now: time.Unix(1_700_000_000, 0)}
}

// head publishes a head after a pause, and returns how often the next bundle has it whole and as a sum.
func (g *gathering) head(t *testing.T, pause time.Duration, name string) (whole, still int) {
	t.Helper()
	g.now = g.now.Add(pause)
	g.stamp.Seq++
	g.publish(g.stamp, name)
	return g.bundled(t)
}

func (g *gathering) publish(stamp wire.Stamp, name string) {
	m := &wire.Message{Kind: wire.KindHead, Name: name, Stamp: stamp, From: g.from.Public().Hint(), KeyID: 7}
	topic := wire.Topic{Kind: wire.KindHead, Origin: m.From}
	g.hear(g.names.Subject(topic), wire.AppendMessage(nil, m, g.from), g.now)
}

func (g *gathering) bundled(t *testing.T) (whole, still int) {
	t.Helper()
	for _, b := range g.bundles(true) {
		list, err := wire.ParseBundle(b)
		if err != nil {
			t.Fatal(err)
		}
		for _, h := range list {
			if len(h.Data) > 0 {
				whole++
			} else {
				still++
			}
		}
	}
	return whole, still
}

// TestGathered checks which heads a hub sends whole: changed ones, those that a node has asked for, those
// that another server with the same key may have sent, and each fourth.
func TestGathered(t *testing.T) {
	const beat = 30 * time.Second
	g := newGathering(t)
	want := func(why string, whole, still int, gotWhole, gotStill int) {
		t.Helper()
		if gotWhole != whole || gotStill != still {
			t.Errorf("%s: %d whole and %d sums, want %d and %d", why, gotWhole, gotStill, whole, still)
		}
	}
	expect := func(why string, whole int, pause time.Duration, name string) {
		t.Helper()
		w, s := g.head(t, pause, name)
		want(why, whole, 1-whole, w, s)
	}
	ask := wire.Topic{Kind: wire.KindAsk, Origin: g.from.Public().Hint(), Key: wire.Hint{9}.String()}
	g.hear(g.names.Subject(ask), []byte("any"), g.now) // before its first head
	expect("first", 1, 0, "a")
	for range 3 {
		expect("same", 0, beat, "a")
	}
	expect("same for four heartbeats", 1, beat, "a")
	expect("same again", 0, beat, "a")
	w, s := g.bundled(t)
	want("no head since", 0, 0, w, s)
	expect("changed", 1, beat, "b")
	expect("same as changed", 0, beat, "b")
	expect("early", 1, beat*3/4-1, "b")
	expect("in time", 0, beat*3/4, "b")
	g.hear(g.names.Subject(ask), []byte("any"), g.now)
	expect("asked for", 1, beat, "b")
	g.stamp.Seq -= 2
	expect("with an old number", 1, beat, "b")
	g.stamp.Seq += 2
	expect("in order", 0, beat, "b")
	boot := g.stamp.Boot
	g.stamp.Boot = boot + 5
	expect("of another process", 1, beat, "b")
	g.stamp.Boot = boot
	expect("of the first process", 1, beat, "b")
}

// TestGatheredAtOnce checks that of many heads of one origin between two bundles a few are sent, the newest among
// them.
func TestGatheredAtOnce(t *testing.T) {
	g := newGathering(t)
	for i := range 2*maxGathered + 1 {
		g.hear(g.names.Subject(wire.Topic{Kind: wire.KindHead, Origin: wire.Hint{1}}), []byte{byte(i)}, g.now)
	}
	var got []byte
	for _, h := range g.heads(t, g.bundles(true)) {
		got = append(got, h.Data...)
	}
	if want := []byte{0, 1, 2, 2 * maxGathered}; !bytes.Equal(got, want) {
		t.Errorf("heads %d, want %d", got, want)
	}
}

// TestGatherer checks that a hub sends a changed head after a sixtieth of a heartbeat at most, and sums after sixteen
// times that time.
func TestGatherer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newGathering(t)
		g.inbox, g.quit, g.ended = make(chan *nats.Msg), make(chan struct{}), make(chan struct{})
		var mu sync.Mutex
		var sent [][]byte
		g.send = func(b []byte) error {
			mu.Lock()
			defer mu.Unlock()
			sent = append(sent, b)
			return nil
		}
		go g.run()
		sends := func(when string, after time.Duration, messages, whole, still int) {
			t.Helper()
			bubble.Advance(after)
			synctest.Wait()
			mu.Lock()
			defer mu.Unlock()
			w, s := 0, 0
			for _, h := range g.heads(t, sent) {
				if len(h.Data) > 0 {
					w++
				} else {
					s++
				}
			}
			if len(sent) != messages || w != whole || s != still {
				t.Errorf("%s: %d messages with %d heads and %d sums, want %d with %d and %d", when, len(sent), w, s, messages,
					whole, still)
			}
			sent = nil
		}
		publish := func() {
			g.stamp.Seq++
			m := &wire.Message{Kind: wire.KindHead, Stamp: g.stamp, From: g.from.Public().Hint(), KeyID: 7}
			g.inbox <- &nats.Msg{Subject: g.names.Subject(wire.Topic{Kind: wire.KindHead, Origin: m.From}),
				Data: wire.AppendMessage(nil, m, g.from)}
		}
		tick := g.opts.Heartbeat / gatherShare
		publish()
		sends("at once", 0, 0, 0, 0)
		sends("changed", tick, 1, 1, 0)
		sends("nothing new", (stillTicks-1)*tick-1, 0, 0, 0)
		sends("all", 1, 1, 0, 0)
		bubble.Advance(g.opts.Heartbeat - stillTicks*tick)
		publish()
		mu.Lock()
		sent = nil
		mu.Unlock()
		sends("same", 4*tick-1, 0, 0, 0)
		sends("all, with a sum", 1, 1, 0, 1)
		g.close()
		sends("closed", g.opts.Heartbeat, 0, 0, 0)
	})
}

// heads returns the heads of the messages of a hub, whole ones and sums.
func (g *gathering) heads(t *testing.T, messages [][]byte) (heads []wire.BundledHead) {
	t.Helper()
	for _, b := range messages {
		list, err := wire.ParseBundle(b)
		if err != nil {
			t.Fatal(err)
		}
		heads = append(heads, list...)
	}
	return heads
}

// TestGatheredSubjects checks that a hub passes on what has the subject and the size of a head, and nothing
// else: members spend time on each.
func TestGatheredSubjects(t *testing.T) {
	own, other := wire.NetworkName(7), wire.NetworkName(0xabc)
	hint := wire.Hint{1, 2, 3}.String()
	for name, tt := range map[string]struct {
		subject string
		size    int
		want    uint64 // the network; 0: the head is dropped
	}{
		"a head":                  {"bh." + own + ".h." + hint, 9, 7},
		"the longest head":        {"bh." + own + ".h." + hint, maxHead, 7},
		"a head that is too long": {"bh." + own + ".h." + hint, maxHead + 1, 0},
		"an empty head":           {"bh." + own + ".h." + hint, 0, 0},
		"another network":         {"bh." + other + ".h." + hint, 9, 0xabc},
		"no network":              {"bh.h." + hint, 9, 0},
		"a network in capitals":   {"bh." + strings.ToUpper(other) + ".h." + hint, 9, 0},
		"a short network":         {"bh.7.h." + hint, 9, 0},
		"a network of words":      {"bh.network.h." + hint, 9, 0},
		"a delta":                 {"bh." + own + ".d." + hint, 9, 0},
		"a head with a key":       {"bh." + own + ".h." + hint + ".x", 9, 0},
		"a head of nobody":        {"bh." + own + ".h.nobody", 9, 0},
		"a kind of two letters":   {"bh." + own + ".hh." + hint, 9, 0},
		"something else":          {"bh.heads", 9, 0},
	} {
		g := newGathering(t)
		for range 2 { // a head that no member can read is never taken for one that is the same as before
			g.hear(tt.subject, make([]byte, tt.size), g.now)
			messages := g.bundles(true)
			got := g.heads(t, messages)
			switch {
			case len(g.gatherer.heads) > 0:
				t.Errorf("%s: remembered", name)
			case len(messages) != 1:
				t.Errorf("%s: %d bundles", name, len(messages))
			case tt.want == 0 && len(got) > 0:
				t.Errorf("%s: passed on as %d heads", name, len(got))
			case tt.want != 0 && (len(got) != 1 || got[0].Network != tt.want || got[0].Origin != (wire.Hint{1, 2, 3}) ||
				len(got[0].Data) != tt.size):
				t.Errorf("%s: %d heads", name, len(got))
			}
		}
	}
}

// TestGatheredForeign checks that the heads of another network are passed on whole: its sums mean nothing to
// the members.
func TestGatheredForeign(t *testing.T) {
	g := newGathering(t)
	g.keyID = 8
	for range 3 {
		if whole, still := g.head(t, 30*time.Second, "a"); whole != 1 || still != 0 {
			t.Errorf("%d whole and %d sums, want one head", whole, still)
		}
	}
}

// TestBundleSizes checks that bundles are small enough for a slow link, however many heads there are, that
// each head is in one of them once, and that sums wait for the next bundle of all.
func TestBundleSizes(t *testing.T) {
	g := newGathering(t)
	const big = 9
	for i := range big {
		g.hear(g.names.Subject(wire.Topic{Kind: wire.KindHead, Origin: wire.Hint{byte(i)}}),
			bytes.Repeat([]byte{byte(i)}, wire.MaxBundle/3), g.now)
	}
	const still = 3000
	for i := range still {
		var h wire.Hint
		binary.BigEndian.PutUint32(h[4:], uint32(i+1))
		g.gatherer.heads[h] = &gathered{sum: wire.HeadSum{1, byte(i), byte(i >> 8)}, still: true}
	}
	sizes := func(messages [][]byte, most int) {
		t.Helper()
		if len(messages) > most {
			t.Errorf("%d messages, want %d at most", len(messages), most)
		}
		for _, b := range messages {
			if len(b) > wire.MaxBundle {
				t.Errorf("a bundle of %d bytes, want %d at most", len(b), wire.MaxBundle)
			}
		}
	}
	now := g.bundles(false)
	sizes(now, big/2+1)
	if got := g.heads(t, now); len(got) != big {
		t.Errorf("%d heads, want %d, and no sums yet", len(got), big)
	}
	if again := g.bundles(false); len(again) > 0 {
		t.Errorf("%d bundles without a new head", len(again))
	}
	all := g.bundles(true)
	sizes(all, 1+still*32/wire.MaxBundle)
	seen := make(map[wire.Hint]bool)
	for _, h := range g.heads(t, all) {
		if seen[h.Origin] || len(h.Data) > 0 || h.Network != 7 || h.Still[0] != 1 {
			t.Fatalf("%+v, seen before: %v", h, seen[h.Origin])
		}
		seen[h.Origin] = true
	}
	if len(seen) != still {
		t.Errorf("%d sums, want %d", len(seen), still)
	}
	if again := g.bundles(true); len(again) != 1 || len(g.heads(t, again)) > 0 {
		t.Errorf("%d bundles, want an empty one, by which members know that the hub has bundles", len(again))
	}
}

// TestGatheredForgets checks that a hub remembers a bounded number of origins. Members then receive whole heads.
func TestGatheredForgets(t *testing.T) {
	g := newGathering(t)
	g.head(t, 0, "a")
	for i := range maxOrigins - 1 {
		g.gatherer.heads[wire.Hint{1, byte(i), byte(i >> 8)}] = &gathered{}
	}
	if whole, still := g.head(t, 30*time.Second, "a"); whole != 0 || still != 1 {
		t.Errorf("with as many origins as may be: %d whole and %d sums, want a sum", whole, still)
	}
	another := newGathering(t).from
	g.from, another = another, g.from
	if whole, _ := g.head(t, 0, "a"); whole != 1 || len(g.gatherer.heads) != 1 {
		t.Errorf("of one more: %d whole, and %d origins are remembered", whole, len(g.gatherer.heads))
	}
	g.from = another
	if whole, still := g.head(t, 30*time.Second, "a"); whole != 1 || still != 0 {
		t.Errorf("of a forgotten one: %d whole and %d sums, want a whole head", whole, still)
	}
}

// TestBundleFull checks that heads which fill a bundle to the byte are in one, and one byte more begins another.
func TestBundleFull(t *testing.T) {
	for further, want := range []int{1, 2} {
		g := newGathering(t)
		for i := range 2 {
			g.hear(g.names.Subject(wire.Topic{Kind: wire.KindHead, Origin: wire.Hint{byte(i)}}),
				make([]byte, wire.MaxBundle/2-headRoom+i*further), g.now)
		}
		if got := len(g.bundles(false)); got != want {
			t.Errorf("%d bytes above a bundle: %d bundles, want %d", further, got, want)
		}
	}
}
