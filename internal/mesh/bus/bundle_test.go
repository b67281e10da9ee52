package bus

import (
	"crypto/ed25519"
	"testing"
	"time"

	"github.com/bulkhead-mail/bulkhead/internal/mesh/wire"
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
	expect("early", 1, beat/2, "b")
	expect("in time", 0, beat, "b")
	ask := wire.Topic{Kind: wire.KindAsk, Origin: g.from.Public().Hint(), Key: wire.Hint{9}.String()}
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
	g.head(t, beat, "b")
	g.now = g.now.Add(beat)
	for range 20 {
		g.stamp.Seq++
		g.publish(g.stamp, "c")
	}
	w, s = g.bundled(t)
	want("twenty at once", maxGathered, 0, w, s)
}
