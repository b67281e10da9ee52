//go:build interop

package mesh

import (
	"fmt"
	"math"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/bulkhead-mail/bulkhead"
	"github.com/bulkhead-mail/bulkhead/client/admin"
	"github.com/bulkhead-mail/bulkhead/internal/testing/nodetest"
)

// limitRule is a rate limit that every version knows.
const limitRule = `[[ratelimit]]
name = "out"
key = "{sasl_username}"
unique = "{recipient}"
limit = 50
period = "24h"
`

// kept is what a node must keep across a change of its program, as its API reports it.
type kept struct {
	Findings []bulkhead.Finding
	Users    []admin.User
	Keys     []admin.RateKey
	Peers    []string // key, name and weight
	Listed   bool     // an entry of a list file
}

// keeps asks a node for everything that it must keep.
func (n *node) keeps(limit int) (k kept) {
	n.t.Helper()
	var sigs []bulkhead.Signature
	for i := range limit {
		sigs = append(sigs, signature(i))
	}
	v, err := n.client.Check(n.ctx(), bulkhead.Query{Signatures: sigs, Terse: true})
	if err != nil {
		n.t.Fatal(err)
	}
	for _, f := range v.Findings { // versions differ in how sure they are
		k.Findings = append(k.Findings, bulkhead.Finding{Sightings: f.Sightings, Judged: f.Judged})
	}
	if k.Users, err = n.client.Users(n.ctx()); err != nil {
		n.t.Fatal(err)
	}
	if k.Keys, err = n.client.RateKeys(n.ctx(), "out", "carl"); err != nil {
		n.t.Fatal(err)
	}
	for i := range k.Keys {
		k.Keys[i] = admin.RateKey{Rule: k.Keys[i].Rule, Rate: math.Round(k.Keys[i].Rate)} // it decays
	}
	peers, err := n.client.Peers(n.ctx())
	if err != nil {
		n.t.Fatal(err)
	}
	for _, p := range peers {
		k.Peers = append(k.Peers, fmt.Sprintf("%s %s %v", p.Key, p.Name, p.Weight))
	}
	found, err := n.client.FindInLists(n.ctx(), "bad.example.org")
	k.Listed = err == nil && len(found) > 0
	return k
}

// counted waits until the nodes agree with the map. Unlike agree, it asks nothing that the last release does not know.
func counted(t *testing.T, nodes []*node, limit int) {
	t.Helper()
	nodetest.Settle(t, nodetest.Patience, "the nodes agree with the map", func() string { return differ(nodes, limit) })
}

// changed returns the files of a data folder whose contents differ from before, which it updates.
func changed(t *testing.T, dir string, before map[string]string) (names []string) {
	t.Helper()
	err := filepath.WalkDir(dir, func(path string, d os.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() || d.Name() == "LOCK" {
			return err
		}
		b, err := os.ReadFile(path)
		if before[path] != string(b) {
			names = append(names, path)
			before[path] = string(b)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return names
}

// TestUpgrade lets today's program open the data folder of the last release, and checks against a map that
// counts, listings, accounts, tokens, lists and peers are as they were. Rate limits begin anew. Then it goes
// back to the last release by the store that was set aside, and to today's program once more.
func TestUpgrade(t *testing.T) {
	released, today := nodetest.Released(t), nodetest.Binary(t)
	const limit = 60
	dir := t.TempDir()
	names := filepath.Join(dir, "names.txt")
	if err := os.WriteFile(names, []byte("bad.example.org\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	list := filepath.Join(dir, "bad.list")
	nodetest.Output(t, "", released, "list", "build", list, names)
	sections := fmt.Sprintf("%s[lists]\nwatch = \"1s\"\n[[lists.list]]\nname = \"bad\"\npath = %q\n", limitRule, list)
	address := ownAddress(t)
	hub := newNodeOf(t, released, "hub", "", fmt.Sprintf("mode = \"hub\"\nlisten = %q\n%s", address, sections))
	leaf := newNodeOf(t, released, "leaf", hub.secret(), fmt.Sprintf("mode = \"join\"\nservers = [%q]", address))
	both := []*node{hub, leaf}
	for _, n := range both {
		n.start()
	}
	befriend(t, both...)
	tokens := make(map[string]string)
	for _, u := range []admin.NewUser{{Name: "ann", Role: "trusted"}, {Name: "bob", Role: "reporter"}} {
		token, err := hub.client.AddUser(hub.ctx(), u)
		if err != nil {
			t.Fatal(err)
		}
		tokens[u.Name] = token.Token
	}
	for i := range limit {
		hub.report(i, uint32(1+i%5))
		leaf.report(i, 3)
	}
	// once reports with an ID, with the token of an account.
	once := func(id string, count uint32) {
		t.Helper()
		r := bulkhead.Report{Signatures: []bulkhead.Signature{signature(1)}, Count: count, ID: id}
		if _, err := admin.New("http://"+hub.http, tokens["ann"]).Report(hub.ctx(), r); err != nil {
			t.Fatal(err)
		}
	}
	once("once", 7)
	once("once", 7)
	hub.truth[1] = [2]uint32{hub.truth[1][0] + 7, hub.truth[1][1]}
	for i := range 9 {
		if _, err := hub.client.ApplyRateLimits(hub.ctx(), map[string]string{"sasl_username": "carl",
			"recipient": fmt.Sprintf("r%d@example.com", i), "protocol_state": "RCPT"}); err != nil {
			t.Fatal(err)
		}
	}
	counted(t, both, limit)
	before := hub.keeps(limit)
	if len(before.Keys) != 1 || before.Keys[0].Rate != 9 || !before.Listed || len(before.Users) != 3 ||
		len(before.Peers) != 1 {
		t.Fatalf("before the upgrade: %+v", before)
	}
	same := func(after kept, what string) {
		t.Helper()
		for i := range before.Findings {
			if before.Findings[i] != after.Findings[i] {
				t.Errorf("%s: signature %d: %d sightings, %v; want %d, %v", what, i, after.Findings[i].Sightings,
					after.Findings[i].Judged, before.Findings[i].Sightings, before.Findings[i].Judged)
			}
		}
		after.Findings, after.Keys = before.Findings, nil
		if !reflect.DeepEqual(before, after) {
			after.Findings = nil
			t.Errorf("%s: %+v, want users %+v, peers %v", what, after, before.Users, before.Peers)
		}
	}

	// A node that was killed is not opened, and nothing of it changes, until its own version has stopped it.
	before.Keys = nil // the only thing that begins anew
	hub.kill()
	files := make(map[string]string)
	changed(t, hub.data(), files)
	serve := []string{"serve", "--config", filepath.Join(hub.dir, "bulkhead.toml"), "--data", hub.data()}
	code, out := nodetest.Command(t, "", today, serve...)
	if code == 0 || !strings.Contains(out, "start that version on this folder once more") {
		t.Errorf("a folder that was not stopped cleanly: code %d: %s", code, out)
	}
	for _, path := range changed(t, hub.data(), files) {
		if name := filepath.Base(path); name != "MANIFEST.copy" && name != "inventory" {
			t.Errorf("a refused start has changed %s", path)
		}
	}
	hub.start()
	hub.stop()

	// Today's program has everything, and counts a repeated report once.
	code, out = nodetest.Command(t, "", today, "doctor", "--data", hub.data(), "--config",
		filepath.Join(hub.dir, "bulkhead.toml"))
	if code != 0 || !strings.Contains(out, "of an older version (format 1)") {
		t.Errorf("doctor of an older folder: code %d: %s", code, out)
	}
	hub.bin = today
	hub.start()
	nodetest.Settle(t, nodetest.Patience, "the hub has all counts", func() string { return lacking(hub, both, limit) })
	nodetest.Settle(t, nodetest.Patience, "the list is open", func() string {
		if found, err := hub.client.FindInLists(hub.ctx(), "bad.example.org"); err != nil || len(found) == 0 {
			return fmt.Sprint(found, err)
		}
		return ""
	})
	same(hub.keeps(limit), "today's program")
	once("lost", 5) // the token is as it was; the way back does without this report
	once("lost", 5)
	if v, err := hub.client.Check(hub.ctx(), bulkhead.Query{Signatures: []bulkhead.Signature{signature(1)}}); err != nil ||
		v.Sightings != before.Findings[1].Sightings+5 {
		t.Errorf("a report of 5 that was repeated with its ID: %d sightings, and %d before it; %v", v.Sightings,
			before.Findings[1].Sightings, err)
	}
	if code, out := nodetest.Command(t, "", today, "doctor", "--data", hub.data()); code != 0 {
		t.Errorf("doctor after the upgrade: code %d: %s", code, out)
	}
	hub.stop()

	// The last release refuses what today's program wrote, and changes nothing.
	changed(t, hub.data(), files)
	if code, out := nodetest.Command(t, "", released, serve...); code == 0 {
		t.Errorf("the last release opens a folder of today's program: %s", out)
	}
	if got := changed(t, hub.data(), files); len(got) > 0 {
		t.Errorf("the last release has changed %v", got)
	}
	// The way back, as docs/operations.md describes it.
	store := filepath.Join(hub.data(), "store")
	former := filepath.Join(dir, "former")
	for _, move := range [][2]string{{store, filepath.Join(dir, "newer")},
		{filepath.Join(hub.data(), "set-aside", "store-of-format-1"), store}} {
		if err := os.Rename(move[0], move[1]); err != nil {
			t.Fatal(err)
		}
	}
	nodetest.Output(t, "", released, "backup", "--data", hub.data(), former)
	if err := os.RemoveAll(store); err != nil {
		t.Fatal(err)
	}
	nodetest.Output(t, "", released, "restore", "--data", hub.data(), former)
	hub.bin = released
	hub.start()
	counted(t, both, limit)
	same(hub.keeps(limit), "the last release again")

	// And forward again, this time both.
	for _, n := range both {
		n.stop()
		n.bin = today
		n.start()
	}
	agree(t, both, limit)
	same(hub.keeps(limit), "today's program again")
}
