package node

import (
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/bulkhead-mail/bulkhead"
	"github.com/bulkhead-mail/bulkhead/client"
	"github.com/bulkhead-mail/bulkhead/client/admin"
	"github.com/bulkhead-mail/bulkhead/internal/config"
	"github.com/bulkhead-mail/bulkhead/internal/node/upstream"
	"github.com/bulkhead-mail/bulkhead/internal/shard"
	"github.com/bulkhead-mail/bulkhead/internal/shard/bucket"
	"github.com/bulkhead-mail/bulkhead/internal/testing/natstest"
	"github.com/bulkhead-mail/bulkhead/internal/testing/nodetest"
	"github.com/bulkhead-mail/bulkhead/internal/trial"
	"github.com/bulkhead-mail/bulkhead/pyzor"
)

// shardedEdge starts an edge of a site of which a node is the only shard, and returns the bucket with the map.
func shardedEdge(t *testing.T, shardURL, token, dir string) (*Node, *bucket.Bucket) {
	t.Helper()
	servers := []string{"nats://" + natstest.Start(t)}
	b, err := bucket.Open(bucket.Options{Servers: servers, Site: "main", Wait: time.Minute})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(b.Close)
	m, err := shard.New(shard.Shard{Name: "a", URLs: []string{shardURL}},
		shard.Note{At: time.Now(), By: "ann", What: "add a"})
	if err == nil {
		err = b.Put(t.Context(), m, 0)
	}
	if err != nil {
		t.Fatal(err)
	}
	tokens := t.TempDir()
	secret, err := ReadSecret(token)
	if err == nil {
		err = os.WriteFile(filepath.Join(tokens, "a"), []byte(secret+"\n"), 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
	n, _ := start(t, Options{Config: parse(t, fmt.Sprintf("[listen]\nhttp = \"127.0.0.1:0\"\n[shards]\nservers = [%q]\n"+
		"tokens = %q\ndomain = \"example.com\"\n", servers[0], tokens)), Dir: dir})
	nodetest.Await(t, "the map", func() bool {
		s := n.upstream.State()
		return s.Version == 1 && s.Problem == ""
	})
	return n, b
}

// TestEdgeOfShards runs a node and an edge that knows it by a map. A report at the edge is known at the node. The
// state, doctor, the files and a reload have the map, and a shard that does not answer.
func TestEdgeOfShards(t *testing.T) {
	node, _ := start(t, Options{Config: parse(t, "[listen]\nhttp = \"127.0.0.1:0\"\n"),
		Dir: filepath.Join(t.TempDir(), "up")})
	dir := filepath.Join(t.TempDir(), "edge")
	n, b := shardedEdge(t, address(t, node, "http"), node.AdminTokenFile(), dir)
	at := admin.New(address(t, n, "http"), "")
	sig := bulkhead.MustSignature(bulkhead.Exact, []byte("a text of twenty byt"))
	if _, err := at.Report(t.Context(), bulkhead.Report{Vote: bulkhead.Spam, Signatures: []bulkhead.Signature{sig},
		Reporter: bulkhead.Reporter{User: "ann"}}); err != nil {
		t.Fatal(err)
	}
	v, err := at.Check(t.Context(), bulkhead.Query{Signatures: []bulkhead.Signature{sig}, Mailbox: "ann@example.com"})
	if err != nil || v.Findings[0].Spam != 1 {
		t.Errorf("%+v, %v", v, err)
	}
	v, err = node.Clearinghouse().Check(t.Context(), bulkhead.Query{Signatures: []bulkhead.Signature{sig}})
	if err != nil || v.Findings[0].Spam != 1 {
		t.Errorf("at the shard: %+v, %v", v, err)
	}
	// A vote goes to the shard of its user, and joins the delivery there.
	letter := []byte("From: a@example.org\nSubject: lamps\n\n" +
		"Lamps for the garden are sold here today at half their price.\n")
	if _, err := at.ReportMessage(t.Context(), letter, client.MessageOptions{Vote: bulkhead.Sighting,
		Recipients: []string{"ann@example.com"}}); err != nil {
		t.Fatal(err)
	}
	before := node.state.State(t.Context()).Joined.Text
	vote := client.MessageOptions{Vote: bulkhead.Spam, User: "ann"}
	if _, err := at.ReportMessage(t.Context(), letter, vote); err != nil {
		t.Fatal(err)
	}
	node.state.Renew()
	if after := node.state.State(t.Context()).Joined.Text; after != before+1 {
		t.Errorf("%d votes were joined at the shard, %d before", after, before)
	}
	m, revision, err := b.Get(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	note := shard.Note{At: time.Now(), By: "ann", What: "add dead"}
	if m, err = m.Add(shard.Shard{Name: "dead", URLs: []string{"http://" + nodetest.Address(t)}}, note); err == nil {
		if m, err = m.Level("dead", note); err == nil {
			err = b.Put(t.Context(), m, revision)
		}
	}
	if err != nil {
		t.Fatal(err)
	}
	nodetest.Await(t, "version 3", func() bool { return n.upstream.State().Version == 3 })
	box := "user0@example.com"
	for i := 0; m.Of(box) != "dead"; i++ {
		box = fmt.Sprintf("user%d@example.com", i)
	}
	if v, err := at.Check(t.Context(), bulkhead.Query{Signatures: []bulkhead.Signature{sig}, Mailbox: box}); err != nil ||
		v.Findings[0].Known() {
		t.Errorf("a mailbox of the dead shard: %+v, %v", v, err)
	}
	state := n.state.State(t.Context())
	if s := state.Shards; s == nil || len(s.Shards) != 2 || s.Shards[0].Slots != 512 || !s.Shards[0].Up ||
		s.Shards[1].Up || !s.Shards[0].Default || s.By != "ann" {
		t.Errorf("%+v", s)
	}
	if node.state.State(t.Context()).Shards != nil {
		t.Error("a node that is no edge has a map")
	}
	rows, err := (&trial.Prober{Node: at}).Doors(t.Context())
	found := map[string]bool{}
	for _, r := range rows {
		if r.Name == "shards" || r.Name == "shard" {
			found[r.Name+" "+r.Address] = r.OK
		}
	}
	if ok, dead := found["shards "], found["shard dead"]; err != nil || !ok || dead || len(found) != 2 {
		t.Errorf("doctor shows %v: %v", found, err)
	}
	x, err := n.examine(t.Context())
	if err != nil || !x.Sound() {
		t.Errorf("%+v, %v", x, err)
	}
	cfg := *n.cfg.Load()
	cfg.Shards.Tokens = filepath.Join(dir, "none")
	if _, _, err := n.Reload(&cfg); err == nil || !strings.Contains(err.Error(), "shards.tokens") {
		t.Errorf("a folder without tokens: %v", err)
	}
	if err := os.WriteFile(filepath.Join(n.cfg.Load().Shards.Tokens, "dead"), []byte("token\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	cfg = *n.cfg.Load()
	cfg.Shards.Default, cfg.Shards.Domain = "dead", ""
	changed, restart, err := n.Reload(&cfg)
	if s := n.upstream.State(); err != nil || len(changed) != 2 || len(restart) > 0 || !s.Shards[1].Default {
		t.Errorf("another default: %v, %v, %v, %+v", changed, restart, err, s)
	}
	if err := os.WriteFile(filepath.Join(dir, upstream.MapFile), []byte("{"), 0o600); err != nil {
		t.Fatal(err)
	}
	if x, err = n.examine(t.Context()); err != nil || len(x.Faults) != 1 || x.Faults[0].Part != "shards" {
		t.Errorf("a broken map on disk: %+v, %v", x, err)
	}
}

// TestEdge runs two nodes, one the edge of the other. A report at a door of the edge is known at
// the upstream and, through it, at every door of the edge. When the upstream is gone, the edge's
// doors still answer, and acknowledge nothing.
func TestEdge(t *testing.T) {
	log := &journal{}
	node, stop := start(t, Options{Config: parse(t, "[listen]\nhttp = \"127.0.0.1:0\"\n"),
		Dir: filepath.Join(t.TempDir(), "up")})
	web := address(t, node, "http")
	upstream := fmt.Sprintf("[upstream]\nurl = %q\ntoken_file = %q\n", web, node.AdminTokenFile())
	n, _ := start(t, Options{Config: everyDoor(t, upstream), Dir: filepath.Join(t.TempDir(), "edge"), Log: slog.New(log)})

	sig, err := bulkhead.ParseSignature("pyzor/digest:0123456789abcdef0123456789abcdef01234567")
	if err != nil {
		t.Fatal(err)
	}
	client := admin.New(address(t, n, "http"), "")
	query := bulkhead.Query{Signatures: []bulkhead.Signature{sig}}
	spam := bulkhead.Report{Signatures: query.Signatures, Vote: bulkhead.Spam}
	if v, err := client.Check(t.Context(), query); err != nil || v.Spam() {
		t.Errorf("before: %+v, %v", v, err)
	}
	if _, err := client.Report(t.Context(), spam); err != nil {
		t.Fatal(err)
	}
	if v, err := node.Clearinghouse().Check(t.Context(), query); err != nil || !v.Spam() {
		t.Errorf("the upstream: %+v, %v; want spam", v, err)
	}
	if v, err := n.engine.Check(t.Context(), query); err != nil || v.Findings[0].Known() {
		t.Errorf("the edge has counts of its own: %+v, %v", v, err)
	}
	door, err := pyzor.Dial(t.Context(), address(t, n, "pyzor"), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer door.Close()
	if r, err := door.Do(t.Context(), pyzor.OpCheck, sig); err != nil || r.Values["Count"] == "0" {
		t.Errorf("at the door for Pyzor: %+v, %v; want what was reported", r, err)
	}
	if _, text := get(t, address(t, n, "http")+"/metrics"); !strings.Contains(text, "bulkhead_upstream_up 1") ||
		strings.Contains(text, `bulkhead_upstream_total{what="request"} 0`) {
		t.Errorf("metrics:\n%s", text)
	}

	if err := stop(); err != nil {
		t.Fatal(err)
	}
	if v, err := client.Check(t.Context(), query); err != nil || v.Unwanted() {
		t.Errorf("without the upstream: %+v, %v; want unknown", v, err)
	}
	if r, err := client.Report(t.Context(), spam); err != nil || r.Pending != 1 {
		t.Errorf("a report without the upstream: %+v, %v, want pending", r, err)
	}
	if err := client.Ready(t.Context()); err == nil {
		t.Error("an edge without its upstream is ready")
	}
	if r, err := door.Do(t.Context(), pyzor.OpCheck, sig); err != nil || r.Values["Count"] != "0" {
		t.Errorf("at the door for Pyzor, without the upstream: %+v, %v", r, err)
	}
	if _, text := get(t, address(t, n, "http")+"/metrics"); !strings.Contains(text, "bulkhead_upstream_up 0") ||
		strings.Contains(text, `bulkhead_upstream_total{what="fail_open"} 0`) {
		t.Errorf("metrics:\n%s", text)
	}
	if away := log.count("the upstream is unreachable"); away != 1 {
		t.Errorf("%d lines say that the upstream is away, want 1:\n%s", away, strings.Join(log.lines, "\n"))
	}
}

// TestEdgeNetwork checks that near copies of mail reported at the upstream are recognised at an
// edge that has its secret. Without the secret they are not, and the edge reports that.
func TestEdgeNetwork(t *testing.T) {
	dir := t.TempDir()
	up, _ := start(t, Options{Config: parse(t, "[listen]\nhttp = \"127.0.0.1:0\"\n"), Dir: filepath.Join(dir, "up")})
	var words []string
	for i := range 120 {
		words = append(words, fmt.Sprintf("%c%c%cword", 'a'+i%26, 'b'+i/26, 'c'+i%7))
	}
	mail := func(name string) []byte {
		return []byte("Subject: offer\n\n" + strings.Join(words[:90], " ") + " " + name + " " + strings.Join(words[90:],
			" ") + "\n")
	}
	sigs, _, err := messages{up.core}.Read(t.Context(), mail("hither"))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := up.Clearinghouse().Report(t.Context(),
		bulkhead.Report{Signatures: sigs, Vote: bulkhead.Spam}); err != nil {
		t.Fatal(err)
	}
	secret, own := filepath.Join(dir, "secret"), up.secret()
	if err := writeKey(secret, own[:]); err != nil {
		t.Fatal(err)
	}
	for name, same := range map[string]bool{"same": true, "other": false} {
		home := filepath.Join(dir, name)
		if same {
			if _, err := NewNetwork(home, secret); err != nil {
				t.Fatal(err)
			}
		}
		log := &journal{}
		n, _ := start(t, Options{
			Config: parse(t, fmt.Sprintf("[listen]\nhttp = \"127.0.0.1:0\"\n[upstream]\nurl = %q\n", address(t, up, "http"))),
			Dir:    home, Log: slog.New(log),
		})
		copied, _, err := messages{n.core}.Read(t.Context(), mail("thither"))
		if err != nil {
			t.Fatal(err)
		}
		v, err := n.Clearinghouse().Check(t.Context(), bulkhead.Query{Signatures: copied})
		if err != nil {
			t.Fatal(err)
		}
		near := 0
		for _, f := range v.Findings {
			if f.Signature.Scheme() == bulkhead.Near && f.Judged == bulkhead.JudgedSpam {
				near++
			}
		}
		if same != (near > 0) {
			t.Errorf("%s secret: %d of the copy's near signatures are known", name, near)
		}
		metric, lines := "bulkhead_upstream_other_network 1", 1
		if same {
			metric, lines = "bulkhead_upstream_other_network 0", 0
		}
		nodetest.Await(t, metric, func() bool {
			_, text := get(t, address(t, n, "http")+"/metrics")
			return strings.Contains(text, metric)
		})
		nodetest.Await(t, fmt.Sprintf("%d lines on it in the log", lines), func() bool {
			return log.count("another network secret") == lines
		})
	}
}

// TestEdgeToken checks that a token changed at the upstream is applied while the edge runs, and
// that a file without a token changes nothing.
func TestEdgeToken(t *testing.T) {
	dir := t.TempDir()
	up, _ := start(t, Options{Config: parse(t, "[listen]\nhttp = \"127.0.0.1:0\"\n"), Dir: filepath.Join(dir, "up")})
	right, err := ReadSecret(up.AdminTokenFile())
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(dir, "token")
	write := func(text string) {
		t.Helper()
		if err := writeSecret(file, text); err != nil {
			t.Fatal(err)
		}
	}
	write("a token that was changed")
	cfg := parse(t, fmt.Sprintf("[listen]\nhttp = \"127.0.0.1:0\"\n"+
		"[upstream]\nurl = %q\ntoken_file = %q\nspool_bytes = 0\n",
		address(t, up, "http"), file))
	n, _ := start(t, Options{Config: cfg, Dir: filepath.Join(dir, "edge")})
	sig := bulkhead.MustSignature(bulkhead.Exact, make([]byte, 20))
	report := func() error {
		_, err := n.Clearinghouse().Report(t.Context(), bulkhead.Report{Signatures: []bulkhead.Signature{sig}})
		return err
	}
	if err := report(); !errors.Is(err, bulkhead.ErrReadOnly) {
		t.Errorf("with a wrong token: %v, want ErrReadOnly", err)
	}
	write(right)
	if err := report(); !errors.Is(err, bulkhead.ErrReadOnly) {
		t.Errorf("before the file was read again: %v, want ErrReadOnly", err)
	}
	if _, _, err := n.Reload(cfg); err != nil {
		t.Fatal(err)
	}
	nodetest.Await(t, "a report with the new token", func() bool { return report() == nil })
	write("")
	var mistake *config.Error
	if _, _, err := n.Reload(cfg); !errors.As(err, &mistake) || mistake.Key != "upstream.token_file" {
		t.Errorf("an empty file: %v, want a mistake of upstream.token_file", err)
	}
	if err := report(); err != nil {
		t.Errorf("after a mistake: %v, want the token from before", err)
	}
}
