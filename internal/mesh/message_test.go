package mesh

import (
	"bytes"
	"context"
	"errors"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/bulkhead-mail/bulkhead"
	"github.com/bulkhead-mail/bulkhead/filter"
	"github.com/bulkhead-mail/bulkhead/internal/arrays"
	"github.com/bulkhead-mail/bulkhead/internal/engine"
)

// takeRounds returns an engine's adds of a number of reports, as the rounds of a message.
func takeRounds(t testing.TB, e *engine.Engine, reports int) []round {
	t.Helper()
	if err := e.Record(context.Background(), true); err != nil {
		t.Fatal(err)
	}
	for n := range reports {
		report(t, e, n, bulkhead.Vote(n%2), 1)
	}
	parts, _, err := e.TakeRounds(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	var out []round
	for _, p := range parts {
		out = append(out, round{ref: ref{p.Array, p.Start}, from: p.From, to: p.To, geometry: p.Geometry, announce: true,
			lineage: lineage{{sampleBoot, 0}}, data: p.Round})
	}
	return out
}

// sampleBoot is the boot of the senders of sample messages.
const sampleBoot = 1<<40 + 5

func sampleMessages(t testing.TB) []*message {
	geometry := filter.Geometry{Kind: filter.Cells, Lines: 2048, K: 6, KeyID: testSecret.ID()}
	bits := filter.Geometry{Kind: filter.Bitmap, Lines: 64, K: 8, KeyID: testSecret.ID()}
	_, id := identity(t)
	dir, old := identity(t)
	_, to, err := RotateIdentity(dir)
	if err != nil || to.Predecessor() != old.ID() {
		t.Fatalf("new key of %s: predecessor %q, %v", old.ID(), to.Predecessor(), err)
	}
	former := geometry
	former.KeyID = filter.Secret{9}.ID()
	rounds := takeRounds(t, smallEngine(t, nil), 3)
	rounds[0].geometry.KeyID = former.KeyID
	history := lineage{{sampleBoot - 900, 2}, {sampleBoot - 1, 3}, {sampleBoot, 8}}
	samples := []*message{
		{kind: kindDelta, rounds: takeRounds(t, smallEngine(t, nil), 9)},
		{kind: kindHead, name: "node", floors: [2]uint64{5, allExpired}, heads: []arrayHead{
			{ref: ref{engine.ArrayCounts, 7}, version: 8, geometry: geometry, lineage: history},
			{ref: ref{engine.ArrayRevoked, 9}, version: 1, geometry: bits, lineage: lineage{{sampleBoot, 0}}}}},
		{kind: kindHead, proof: to.proof, key: to.public},
		{kind: kindHead, organisations: []Organisation{{1}, {1, 2}, {3}}},
		{kind: kindAsk, to: id.public.hint(), life: 77, boot: 78,
			wants: []arrayHead{{ref: ref{engine.ArraySpam, 7}, version: 3, boot: 9},
				{ref: ref{engine.ArrayCounts, 7}, version: 4, partial: true}}, proofs: [][]byte{{1, 2}, {}, {3}}},
		{kind: kindAsk, to: id.public.hint()},
		{kind: kindImage, image: image{ref{engine.ArrayCounts, 7}, 99, geometry, history, [][]byte{{1, 2, 3}, {}}}},
		{kind: kindPages, to: id.public.hint(),
			lost: lostPages{ref: ref{engine.ArrayCounts, 7}, geometry: geometry, list: []uint64{0, 300}}},
		{kind: kindRefill, to: id.public.hint(),
			lost: lostPages{ref: ref{engine.ArraySpam, 7}, geometry: bits, list: []uint64{5, 1},
				pages: [][]byte{{1, 2, 3}, {}}}},
		// Of a former secret of the network.
		{kind: kindDelta, rounds: rounds},
		{kind: kindHead, heads: []arrayHead{
			{ref: ref{engine.ArrayCounts, 7}, version: 8, geometry: former, lineage: history},
			{ref: ref{engine.ArrayCounts, 8}, version: 8, geometry: geometry, lineage: history}}},
		{kind: kindImage, image: image{ref{engine.ArrayCounts, 7}, 99, former, history, [][]byte{{1}}}},
	}
	for _, m := range samples {
		m.keyID = testSecret.ID()
		m.stamp = stamp{incarnation: 1 << 40, boot: sampleBoot, seq: 7, at: 1<<40 + 99}
	}
	return samples
}

// TestMessageRoundTrip checks that a message is read as it was sent, that the key reveals any
// changed bit, and that no part of a message is a message.
func TestMessageRoundTrip(t *testing.T) {
	for _, m := range sampleMessages(t) {
		_, id := identity(t)
		m.from = id.public.hint()
		if m.proof != nil {
			m.key = id.public
		}
		raw := appendMessage(nil, m, id)
		got, err := parseMessage(raw, testSecret.ID())
		if err != nil {
			t.Fatalf("%c: %v", m.kind, err)
		}
		if !reflect.DeepEqual(got, m) {
			t.Errorf("%c: read %+v, want %+v", m.kind, got, m)
		}
		if !verify(raw, &id.public) {
			t.Errorf("%c: signature is not valid", m.kind)
		}
		for i := range raw {
			bad := bytes.Clone(raw)
			bad[i] ^= 1 << (i % 8)
			if verify(bad, &id.public) {
				t.Fatalf("%c: bit of byte %d changed, signature still valid", m.kind, i)
			}
		}
		for n := range len(raw) {
			if _, err := parseMessage(raw[:n], testSecret.ID()); err == nil && verify(raw[:n], &id.public) {
				t.Fatalf("%c: cut to %d of %d bytes accepted", m.kind, n, len(raw))
			}
		}
	}
}

func TestMessageRefusals(t *testing.T) {
	_, id := identity(t)
	raw := appendMessage(nil, sampleMessages(t)[1], id)
	change := func(f func([]byte) []byte) []byte { return f(bytes.Clone(raw)) }
	for name, tt := range map[string]struct {
		raw  []byte
		want error
	}{
		"empty":        {nil, errMessage},
		"newer":        {change(func(b []byte) []byte { b[0]++; return b }), errNewer},
		"unknown kind": {change(func(b []byte) []byte { b[1] = 'z'; return b }), errNewer},
		"longer":       {append(bytes.Clone(raw), 0), errMessage},
		"huge":         {make([]byte, maxMessage+1), errMessage},
	} {
		if m, err := parseMessage(tt.raw, testSecret.ID()); !errors.Is(err, tt.want) || m != nil {
			t.Errorf("%s: %+v, %v; want %v", name, m, err, tt.want)
		}
	}
	many := &message{kind: kindAsk}
	for range maxParts + 1 {
		many.wants = append(many.wants, arrayHead{ref: ref{engine.ArraySpam, 1}})
	}
	if _, err := parseMessage(appendMessage(nil, many, id), testSecret.ID()); !errors.Is(err, errMessage) {
		t.Errorf("%d items: %v", len(many.wants), err)
	}
}

func FuzzParseMessage(f *testing.F) {
	_, id := identity(f)
	for _, m := range sampleMessages(f) {
		f.Add(appendMessage(nil, m, id))
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		m, err := parseMessage(raw, testSecret.ID())
		if (m == nil) == (err == nil) {
			t.Fatalf("parseMessage = %+v, %v: want a result or an error", m, err)
		}
		if err != nil {
			return
		}
		for i := range m.rounds {
			r := &m.rounds[i]
			if g := r.geometry; r.announce {
				if g.Validate() != nil {
					t.Fatalf("geometry %v", g)
				}
				arrays.ParseRoundBody(r.data, g, r.start, r.from)
			}
		}
		if m.proof == nil {
			// A message that was read can be sent again, with the same meaning.
			again, err := parseMessage(appendMessage(nil, m, id), testSecret.ID())
			if err != nil {
				t.Fatalf("what was read is not read again: %v", err)
			}
			if again.stamp != m.stamp || len(again.rounds) != len(m.rounds) || !reflect.DeepEqual(again.heads, m.heads) ||
				!slices.Equal(again.organisations, m.organisations) || !reflect.DeepEqual(again.wants, m.wants) {
				t.Fatalf("read %+v, then %+v", m, again)
			}
		}
	})
}

func TestIdentity(t *testing.T) {
	dir, id := identity(t)
	again, err := OpenIdentity(dir)
	if err != nil || again.ID() != id.ID() || len(id.ID()) != 56 || !isID(id.ID()) {
		t.Errorf("opened again: %v, %v; want %s", again, err, id.ID())
	}
	for _, bad := range []string{"", "U", strings.Replace(id.ID(), id.ID()[9:10], "1", 1), "S" + id.ID()[1:],
		id.ID() + "A"} {
		if isID(bad) {
			t.Errorf("%q is taken for the key of a node", bad)
		}
	}
	if err := os.Chmod(filepath.Join(dir, keyFile), 0o644); err != nil {
		t.Fatal(err)
	}
	if _, err := OpenIdentity(dir); err == nil || !strings.Contains(err.Error(), "chmod 0600") {
		t.Errorf("key that others can read: %v", err)
	}
	if err := os.WriteFile(filepath.Join(dir, keyFile), []byte("SU\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	os.Chmod(filepath.Join(dir, keyFile), 0o600)
	if _, err := OpenIdentity(dir); err == nil {
		t.Error("damaged key accepted")
	}
}

// FuzzParseSuccession: the proof of a change of keys arrives with connections to a hub, from any
// client.
func FuzzParseSuccession(f *testing.F) {
	dir, _ := identity(f)
	_, to, err := RotateIdentity(dir)
	if err != nil {
		f.Fatal(err)
	}
	f.Add(to.proof.text())
	f.Add("")
	f.Add("AAAA")
	f.Fuzz(func(t *testing.T, text string) {
		s := parseSuccession(text)
		if s == nil {
			return
		}
		if again := parseSuccession(s.text()); again == nil || *again != *s {
			t.Fatalf("%q is read as %+v, then as %+v", text, s, again)
		}
		if s.names(&to.public) && *s != *to.proof {
			t.Fatalf("forged succession %q", text)
		}
	})
}

// FuzzParseID: keys are typed by people, and compared as text.
func FuzzParseID(f *testing.F) {
	_, id := identity(f)
	f.Add(id.ID())
	f.Add("UABC")
	f.Add("")
	f.Fuzz(func(t *testing.T, text string) {
		key, err := parsePublic(text)
		if err == nil && key.id() != text {
			t.Fatalf("%q is another spelling of %s", text, key.id())
		}
	})
}

// parseMessage opens and parses a message, as a node does in two steps.
func parseMessage(b []byte, keyID uint64) (*message, error) {
	e, err := openEnvelope(b)
	if err != nil {
		return nil, err
	}
	return e.parse(keyID)
}

// verify reports whether the bytes of a message were signed by the holder of key.
func verify(b []byte, key *public) bool {
	e, err := openEnvelope(b)
	return err == nil && e.signedBy(key)
}

// isID reports whether text is the public key of a node.
func isID(text string) bool {
	_, err := parsePublic(text)
	return err == nil
}
