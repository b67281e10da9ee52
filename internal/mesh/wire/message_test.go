package wire

import (
	"bytes"
	"context"
	"crypto/ed25519"
	"errors"
	"reflect"
	"slices"
	"testing"

	"github.com/bulkhead-mail/bulkhead"
	"github.com/bulkhead-mail/bulkhead/filter"
	"github.com/bulkhead-mail/bulkhead/internal/arrays"
	"github.com/bulkhead-mail/bulkhead/internal/engine"
	"github.com/bulkhead-mail/bulkhead/internal/lesson"
	"github.com/bulkhead-mail/bulkhead/internal/testing/enginetest"
)

// takeRounds returns an engine's adds of a number of reports, as the rounds of a message.
func takeRounds(t testing.TB, e *engine.Engine, reports int) []Round {
	t.Helper()
	if err := e.Record(context.Background(), true); err != nil {
		t.Fatal(err)
	}
	for n := range reports {
		enginetest.Report(t, e, n, bulkhead.Vote(n%2), 1)
	}
	parts, _, err := e.TakeRounds(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	var out []Round
	for _, p := range parts {
		out = append(out, Round{Ref: Ref{p.Array, p.Start}, From: p.From, To: p.To, Geometry: p.Geometry, Announce: true,
			Lineage: Lineage{{sampleBoot, 0}}, Data: p.Round})
	}
	return out
}

// sampleBoot is the boot of the senders of sample messages.
const sampleBoot = 1<<40 + 5

func sampleMessages(t testing.TB) []*Message {
	geometry := filter.Geometry{Kind: filter.Cells, Lines: 2048, K: 6, KeyID: enginetest.Secret.ID()}
	bits := filter.Geometry{Kind: filter.Bitmap, Lines: 64, K: 8, KeyID: enginetest.Secret.ID()}
	id, to := newKeyPair(t), newKeyPair(t)
	proof := newSuccession(t, to)
	former := geometry
	former.KeyID = filter.Secret{9}.ID()
	rounds := takeRounds(t, enginetest.Small(t, nil), 3)
	rounds[0].Geometry.KeyID = former.KeyID
	history := Lineage{{sampleBoot - 900, 2}, {sampleBoot - 1, 3}, {sampleBoot, 8}}
	samples := []*Message{
		{Kind: KindDelta, Rounds: takeRounds(t, enginetest.Small(t, nil), 9)},
		{Kind: KindHead, Name: "node", Floors: [2]uint64{5, AllExpired}, Heads: []ArrayHead{
			{Ref: Ref{engine.ArrayCounts, 7}, Version: 8, Geometry: geometry, Lineage: history},
			{Ref: Ref{engine.ArrayRevoked, 9}, Version: 1, Geometry: bits, Lineage: Lineage{{sampleBoot, 0}}}}},
		{Kind: KindHead, Proof: proof, Key: to.Public()},
		{Kind: KindHead, Organisations: []Organisation{{1}, {1, 2}, {3}}},
		{Kind: KindAsk, To: id.Public().Hint(), Incarnation: 77, Boot: 78,
			Wants: []ArrayHead{{Ref: Ref{engine.ArraySpam, 7}, Version: 3, Boot: 9},
				{Ref: Ref{engine.ArrayCounts, 7}, Version: 4, Partial: true}}, Proofs: [][]byte{{1, 2}, {}, {3}}},
		{Kind: KindAsk, To: id.Public().Hint()},
		{Kind: KindImage, Image: Image{Ref{engine.ArrayCounts, 7}, 99, geometry, history, [][]byte{{1, 2, 3}, {}}}},
		{Kind: KindPages, To: id.Public().Hint(),
			Lost: LostPages{Ref: Ref{engine.ArrayCounts, 7}, Geometry: geometry, List: []uint64{0, 300}}},
		{Kind: KindRefill, To: id.Public().Hint(),
			Lost: LostPages{Ref: Ref{engine.ArraySpam, 7}, Geometry: bits, List: []uint64{5, 1},
				Pages: [][]byte{{1, 2, 3}, {}}}},
		{Kind: KindDelta, Rounds: []Round{{Ref: Ref{engine.ArraySpam, 7}, From: 3, To: 5, Data: []byte{1, 2}}}},
		// Of a former secret of the network.
		{Kind: KindDelta, Rounds: rounds},
		{Kind: KindHead, Heads: []ArrayHead{
			{Ref: Ref{engine.ArrayCounts, 7}, Version: 8, Geometry: former, Lineage: history},
			{Ref: Ref{engine.ArrayCounts, 8}, Version: 8, Geometry: geometry, Lineage: history}}},
		{Kind: KindImage, Image: Image{Ref{engine.ArrayCounts, 7}, 99, former, history, [][]byte{{1}}}},
	}
	mark := lesson.Mark{Start: 9, KeyID: 5, Round: 3, All: lesson.Entry{Reported: 40, Withdrawn: 1, Delivered: 300}}
	samples = append(samples,
		&Message{Kind: KindStudy, To: id.Public().Hint(), Teaching: Teaching{
			Study: &lesson.Study{Table: 7, Held: []lesson.Mark{{Start: 9, Round: 2}}}}},
		&Message{Kind: KindLesson, To: id.Public().Hint(), Teaching: Teaching{Lesson: &lesson.Lesson{
			Table: 7, Live: []lesson.Mark{mark}, Since: 2, Parts: 1,
			Entries: []lesson.Entry{{Token: 5, Reported: 2}, {Token: 1 << 60, Delivered: 900}}}}})
	for _, m := range samples {
		m.KeyID = enginetest.Secret.ID()
		m.Stamp = Stamp{Incarnation: 1 << 40, Boot: sampleBoot, Seq: 7, At: 1<<40 + 99}
	}
	return samples
}

// TestMessageRoundTrip checks that a message is read as it was sent, that the key reveals any
// changed bit, and that no part of a message is a message.
func TestMessageRoundTrip(t *testing.T) {
	for _, m := range sampleMessages(t) {
		id := newKeyPair(t)
		m.From = id.Public().Hint()
		if m.Proof != nil {
			m.Key = id.Public()
		}
		raw := AppendMessage(nil, m, id)
		got, err := parseMessage(raw, enginetest.Secret.ID())
		if err != nil {
			t.Fatalf("%c: %v", m.Kind, err)
		}
		if !reflect.DeepEqual(got, m) {
			t.Errorf("%c: read %+v, want %+v", m.Kind, got, m)
		}
		if !verify(raw, id.Public()) {
			t.Errorf("%c: signature is not valid", m.Kind)
		}
		for i := range raw {
			bad := bytes.Clone(raw)
			bad[i] ^= 1 << (i % 8)
			if verify(bad, id.Public()) {
				t.Fatalf("%c: bit of byte %d changed, signature still valid", m.Kind, i)
			}
		}
		for n := range len(raw) {
			if _, err := parseMessage(raw[:n], enginetest.Secret.ID()); err == nil && verify(raw[:n], id.Public()) {
				t.Fatalf("%c: cut to %d of %d bytes accepted", m.Kind, n, len(raw))
			}
		}
	}
}

// TestArrays checks that a message names the arrays of its rounds.
func TestArrays(t *testing.T) {
	one, two := Ref{engine.ArrayCounts, 5}, Ref{engine.ArraySpam, 6}
	for _, want := range [][]Ref{nil, {one}, {one, two, one}} {
		m := &Message{Kind: KindDelta}
		for _, x := range want {
			m.Rounds = append(m.Rounds, Round{Ref: x})
		}
		if got := m.Arrays(); !slices.Equal(got, want) {
			t.Errorf("arrays %v, want %v", got, want)
		}
	}
}

func TestMessageRefusals(t *testing.T) {
	id := newKeyPair(t)
	raw := AppendMessage(nil, sampleMessages(t)[1], id)
	change := func(f func([]byte) []byte) []byte { return f(bytes.Clone(raw)) }
	for name, tt := range map[string]struct {
		raw  []byte
		want error
	}{
		"empty":        {nil, errMessage},
		"newer":        {change(func(b []byte) []byte { b[0]++; return b }), ErrNewer},
		"unknown kind": {change(func(b []byte) []byte { b[1] = 'z'; return b }), ErrNewer},
		"longer":       {append(bytes.Clone(raw), 0), errMessage},
		"huge":         {make([]byte, MaxMessage+1), errMessage},
	} {
		if m, err := parseMessage(tt.raw, enginetest.Secret.ID()); !errors.Is(err, tt.want) || m != nil {
			t.Errorf("%s: %+v, %v; want %v", name, m, err, tt.want)
		}
	}
	many := &Message{Kind: KindAsk}
	for range MaxParts + 1 {
		many.Wants = append(many.Wants, ArrayHead{Ref: Ref{engine.ArraySpam, 1}})
	}
	if _, err := parseMessage(AppendMessage(nil, many, id), enginetest.Secret.ID()); !errors.Is(err, errMessage) {
		t.Errorf("%d items: %v", len(many.Wants), err)
	}
}

func FuzzParseMessage(f *testing.F) {
	id := newKeyPair(f)
	for _, m := range sampleMessages(f) {
		f.Add(AppendMessage(nil, m, id))
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		m, err := parseMessage(raw, enginetest.Secret.ID())
		if (m == nil) == (err == nil) {
			t.Fatalf("parseMessage = %+v, %v: want a result or an error", m, err)
		}
		if err != nil {
			return
		}
		for i := range m.Rounds {
			r := &m.Rounds[i]
			if g := r.Geometry; r.Announce {
				if g.Validate() != nil {
					t.Fatalf("geometry %v", g)
				}
				arrays.ParseRoundBody(r.Data, g, r.Start, r.From)
			}
		}
		if m.Proof == nil {
			// A message that was read can be sent again, with the same meaning.
			again, err := parseMessage(AppendMessage(nil, m, id), enginetest.Secret.ID())
			if err != nil {
				t.Fatalf("what was read is not read again: %v", err)
			}
			if again.Stamp != m.Stamp || len(again.Rounds) != len(m.Rounds) || !reflect.DeepEqual(again.Heads, m.Heads) ||
				!slices.Equal(again.Organisations, m.Organisations) || !reflect.DeepEqual(again.Wants, m.Wants) {
				t.Fatalf("read %+v, then %+v", m, again)
			}
		}
	})
}

// FuzzParseSuccession: the proof of a change of keys arrives with connections to a hub, from any
// client.
func FuzzParseSuccession(f *testing.F) {
	to := newKeyPair(f)
	proof := newSuccession(f, to)
	f.Add(proof.Text())
	f.Add("")
	f.Add("AAAA")
	f.Fuzz(func(t *testing.T, text string) {
		s := ParseSuccession(text)
		if s == nil {
			return
		}
		if again := ParseSuccession(s.Text()); again == nil || *again != *s {
			t.Fatalf("%q is read as %+v, then as %+v", text, s, again)
		}
		if s.Names(to.Public()) && *s != *proof {
			t.Fatalf("forged succession %q", text)
		}
	})
}

// FuzzParseID: keys are typed by people, and compared as text.
func FuzzParseID(f *testing.F) {
	id := newKeyPair(f)
	f.Add(id.Public().ID())
	f.Add("UABC")
	f.Add("")
	f.Fuzz(func(t *testing.T, text string) {
		key, err := ParsePublic(text)
		if err == nil && key.ID() != text {
			t.Fatalf("%q is another spelling of %s", text, key.ID())
		}
	})
}

// verify reports whether the bytes of a message were signed by the holder of key.
func verify(b []byte, key Public) bool {
	e, err := OpenEnvelope(b)
	return err == nil && e.SignedBy(key)
}

// A keyPair is the key pair of a node.
type keyPair struct{ private ed25519.PrivateKey }

func newKeyPair(t testing.TB) *keyPair {
	t.Helper()
	_, private, err := ed25519.GenerateKey(nil)
	if err != nil {
		t.Fatal(err)
	}
	return &keyPair{private}
}

func (k *keyPair) Public() Public { return Public(k.private.Public().(ed25519.PublicKey)) }

func (k *keyPair) Sign(text []byte) []byte { return ed25519.Sign(k.private, text) }

// newSuccession returns the proof that a new key pair, of which nothing else is known, chose to.
func newSuccession(t testing.TB, to *keyPair) *Succession {
	t.Helper()
	old := newKeyPair(t)
	return &Succession{Old: old.Public(), Signature: [64]byte(old.Sign(SuccessionText(to.Public())))}
}

// parseMessage opens and parses a message, as a node does in two steps.
func parseMessage(b []byte, keyID uint64) (*Message, error) {
	e, err := OpenEnvelope(b)
	if err != nil {
		return nil, err
	}
	return e.Parse(keyID)
}
