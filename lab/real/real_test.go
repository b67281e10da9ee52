package real

import (
	"bytes"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"net/mail"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/emersion/go-msgauth/dkim"

	"github.com/bulkhead-mail/bulkhead"
	"github.com/bulkhead-mail/bulkhead/internal/mailbox"
	"github.com/bulkhead-mail/bulkhead/internal/testing/nodetest"
	"github.com/bulkhead-mail/bulkhead/internal/testing/sharedtest"
	"github.com/bulkhead-mail/bulkhead/lab/stream"
)

func TestMain(m *testing.M) { nodetest.Main(m) }

// processes returns a program whose clock can be moved, and a folder with a short path, in which
// sockets fit.
func processes(t *testing.T) (program, dir string) {
	t.Helper()
	if testing.Short() {
		t.Skip("runs processes")
	}
	program = nodetest.Simulated(t)
	dir, err := os.MkdirTemp("", "real")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	return program, dir
}

// dense is a world in which identical copies of few campaigns come to few readers.
func dense() *World {
	w := NewWorld(3, minSize)
	w.Days, w.HamPerDay, w.SpamShare, w.Sites, w.Users = 3, 60, 0.6, 4, 48
	w.Tail, w.MostCopies, w.Spread, w.Delay = 0.8, 100, 12*time.Hour, 20*time.Minute
	w.Differences = []float64{1, 0, 0, 0, 0, 0, 0}
	w.LeastRate, w.MostRate = 0.1, 0.1001
	return w
}

// TestProcesses plays a small world to one node: every door answers each delivery, the counts
// add up, and identical copies are caught.
func TestProcesses(t *testing.T) {
	program, dir := processes(t)
	plan := dense().Plan()
	tally, err := Run(t.Context(), program, plan, Options{Topology: OneNode, Dir: dir})
	if err != nil {
		t.Fatal(err)
	}
	want := map[bool]int{}
	for i := range plan.Deliveries {
		want[plan.Deliveries[i].Spam]++
	}
	sums := map[string]int{}
	doors := map[Door]int{}
	for _, l := range tally.Lines() {
		if l.Spam+l.Suspected+l.Bulk+l.Good+l.Unknown != l.Cases {
			t.Errorf("%+v: the classes do not add up", l)
		}
		sums[fmt.Sprint(l.IsSpam, l.Dimension)] += l.Cases
		if l.Dimension == "door" {
			doors[Door(l.Name)] += l.Cases
		}
		if l.IsSpam && l.Dimension == "kind" && l.Name == "identical" && l.Counts.Spam == 0 {
			t.Errorf("no identical copy is called spam: %+v", l)
		}
	}
	for _, spam := range []bool{true, false} {
		for dimension, times := range map[string]int{"kind": 2, "door": 1} { // "kind" has a row of all
			if got := sums[fmt.Sprint(spam, dimension)]; got != times*want[spam] {
				t.Errorf("spam %v, by %s: %d cases, want %d of %d deliveries", spam, dimension, got, times, want[spam])
			}
		}
	}
	for _, d := range Doors {
		if doors[d] == 0 || doors[d] != tally.Doors[d] {
			t.Errorf("%s has answered %d deliveries, %d in the rows", d, tally.Doors[d], doors[d])
		}
	}
	votes := 0
	for way, c := range tally.Ways {
		votes += c.Spam
		if c.Refused > 0 {
			t.Errorf("%d votes by %s are refused: %s", c.Refused, way, c.Reason)
		}
	}
	if votes == 0 {
		t.Error("no reader has voted")
	}
	agree(t, tally, quickly(t, plan))
}

// agree checks that one node in this process answers as processes do. In each kind of mail with at least 100
// deliveries, the shares that are called spam differ by at most 2 points.
func agree(t *testing.T, processes, quick *Tally) {
	t.Helper()
	type id struct {
		spam bool
		name string
	}
	one := map[id]Line{}
	for _, l := range quick.Lines() {
		if l.Dimension == "kind" {
			one[id{l.IsSpam, l.Name}] = l
		}
	}
	for _, l := range processes.Lines() {
		if l.Dimension != "kind" || l.Cases < 100 {
			continue
		}
		here := one[id{l.IsSpam, l.Name}]
		t.Logf("spam %v, %s: %.1f %% of %d called spam, in this process %.1f %%", l.IsSpam, l.Name, l.CalledSpam.Percent,
			l.Cases, here.CalledSpam.Percent)
		if math.Abs(l.CalledSpam.Percent-here.CalledSpam.Percent) > 2 {
			t.Errorf("spam %v, %s: processes call %.1f %% spam, a node in this process %.1f %%, want at most 2 points apart",
				l.IsSpam, l.Name, l.CalledSpam.Percent, here.CalledSpam.Percent)
		}
	}
}

// quickly plays a plan to a node in this process.
func quickly(t *testing.T, plan *Plan) *Tally {
	t.Helper()
	quick, err := Quick(t.Context(), plan, Options{})
	if err != nil {
		t.Fatal(err)
	}
	return quick
}

// TestAgreement plays three worlds to processes, and to a node in this process.
func TestAgreement(t *testing.T) {
	if os.Getenv("BULKHEAD_FULL") != "1" {
		t.Skip("takes minutes; BULKHEAD_FULL=1 runs it")
	}
	program, dir := processes(t)
	real, quick := NewTally(), NewTally()
	for seed := range uint64(3) {
		plan := NewWorld(5000+seed, 4000).Plan()
		world := filepath.Join(dir, fmt.Sprint(seed))
		if err := os.Mkdir(world, 0o700); err != nil {
			t.Fatal(err)
		}
		tally, err := Run(t.Context(), program, plan, Options{Topology: OneNode, Dir: world})
		if err != nil {
			t.Fatal(err)
		}
		real.Merge(tally)
		quick.Merge(quickly(t, plan))
	}
	agree(t, real, quick)
}

// everyWay returns a plan for 11 votes, one by each way: its sites have a user for each.
func everyWay() *Plan {
	w := dense()
	w.Users = 4 * len(Ways[Milter])
	return w.Plan()
}

// TestWays casts a vote by each way, on a text of its own. A copy is spam at once, and no longer
// after a vote of the same reader against it.
func TestWays(t *testing.T) {
	program, dir := processes(t)
	plan := everyWay()
	for _, topology := range Topologies {
		t.Run(string(topology), func(t *testing.T) {
			sub := filepath.Join(dir, string(topology))
			if err := os.Mkdir(sub, 0o700); err != nil {
				t.Fatal(err)
			}
			c, err := newCluster(t.Context(), program, plan, Options{Topology: topology, Dir: sub})
			if err != nil {
				t.Fatal(err)
			}
			defer func() {
				if err := c.close(); err != nil {
					t.Error(err)
				}
			}()
			done := map[Way]bool{}
			for site := range plan.Sites {
				for user := range plan.Sites[site].Users {
					if way := plan.Sites[site].Users[user].Way; !done[way] {
						done[way] = true
						testWay(t, c, way, site, user)
					}
				}
			}
			if len(done) != 11 {
				t.Errorf("%d ways, want 11", len(done))
			}
		})
	}
}

func testWay(t *testing.T, c *cluster, way Way, site, user int) {
	t.Helper()
	r := rand.New(rand.NewPCG(uint64(len(way)), uint64(site+100*user)))
	d := &Delivery{Site: site, User: user, To: c.plan.Sites[site].Address(user)}
	draft := draft{
		format: format{plain: true}, from: "x@spam-" + coin(r, 2) + ".top", to: d.To, subject: "about " + coin(r, 3),
		text: languages[0].sentences(r, "talk", 12, nil), client: address(r, networks(r, 1)), messageID: token(r) +
			"@x.example",
	}
	draft.sender = draft.from
	m := draft.mail(r)
	a, err := c.deliver(t.Context(), d, &m)
	if err != nil || a.Class == bulkhead.ClassSpam {
		t.Errorf("%s: the first copy is %v, %v", way, a, err)
		return
	}
	for _, vote := range []bulkhead.Vote{bulkhead.Spam, bulkhead.Ham} {
		err := c.vote(t.Context(), d, &m, a, vote)
		if way == PyzorReport && vote == bulkhead.Ham && c.of(site).edge {
			if !errors.As(err, new(refusal)) {
				t.Errorf("an edge takes an anonymous objection by Pyzor: %v", err)
			}
			return
		}
		if err != nil {
			t.Errorf("%s: %v", way, err)
			return
		}
		copied := m
		copied.Raw = bytes.ReplaceAll(m.Raw, []byte("Message-ID: <"), []byte("Message-ID: <1"))
		got, err := c.of(site).askPlugin(t.Context(), Rspamd, &copied, true)
		if err != nil {
			t.Errorf("%s: %v", way, err)
			continue
		}
		if flagged := got.Class >= bulkhead.ClassSuspected; flagged != (vote == bulkhead.Spam) {
			t.Errorf("%s: after a vote for %v a copy is %v", way, vote, got.Class)
		}
	}
}

// TestPlansRepeat checks that a seed stands for one plan, and another for another.
func TestPlansRepeat(t *testing.T) {
	a, b, other := NewWorld(5, 400).Plan(), NewWorld(5, 400).Plan(), NewWorld(6, 400).Plan()
	if len(a.Deliveries) != len(b.Deliveries) || len(a.Deliveries) == 0 {
		t.Fatalf("%d and %d deliveries", len(a.Deliveries), len(b.Deliveries))
	}
	for i := range a.Deliveries {
		x, y := a.Deliveries[i].Mail(), b.Deliveries[i].Mail()
		if !reflect.DeepEqual(x, y) {
			t.Fatalf("delivery %d differs:\n%s\n%s", i, x.Raw, y.Raw)
		}
	}
	if len(other.Deliveries) == len(a.Deliveries) && bytes.Equal(other.Deliveries[0].Mail().Raw,
		a.Deliveries[0].Mail().Raw) {
		t.Error("another seed makes the same plan")
	}
}

// TestSign checks signatures with a library.
func TestSign(t *testing.T) {
	plan, n := NewWorld(2, 600).Plan(), 0
	for i := range plan.Deliveries {
		m := plan.Deliveries[i].Mail()
		n += len(m.DKIM)
		got, err := dkim.VerifyWithOptions(bytes.NewReader(m.Raw), &dkim.VerifyOptions{
			LookupTXT: func(string) ([]string, error) { return []string{publicKey}, nil },
		})
		if err != nil || len(got) != len(m.DKIM) {
			t.Fatalf("%d signatures, %v; want %d\n%s", len(got), err, len(m.DKIM), m.Raw)
		}
		for _, v := range got {
			if v.Err != nil || !slices.Contains(m.DKIM, v.Domain) {
				t.Fatalf("signature of %s: %v\n%s", v.Domain, v.Err, m.Raw)
			}
		}
	}
	if n < 100 {
		t.Errorf("%d signatures, too few", n)
	}
}

// TestWorlds checks that the worlds of many seeds are within their bounds and have all kinds of
// mail, and that each message can be parsed.
func TestWorlds(t *testing.T) {
	kinds := map[string]int{}
	for seed := range uint64(20) {
		w := NewWorld(seed, 1000)
		plan := w.Plan()
		if n := len(plan.Deliveries); n < 100 || n > 1100 {
			t.Errorf("seed %d: %d deliveries, want up to 1000", seed, n)
		}
		for i := range plan.Deliveries {
			d := &plan.Deliveries[i]
			if i > 0 && d.At < plan.Deliveries[i-1].At {
				t.Fatalf("seed %d: delivery %d comes before the last", seed, i)
			}
			if kinds[d.Kind]++; kinds[d.Kind] > 20 {
				continue
			}
			m := d.Mail()
			read, err := mail.ReadMessage(bytes.NewReader(m.Raw))
			if err != nil {
				t.Fatalf("seed %d, %s: %v\n%s", seed, d.Kind, err, m.Raw)
			}
			if got, err := mail.ParseAddress(read.Header.Get("From")); err != nil || !strings.Contains(got.Address, "@") {
				t.Errorf("%s: From %q: %v", d.Kind, read.Header.Get("From"), err)
			}
			if m.Recipient != d.To || !m.Client.IsGlobalUnicast() || m.Client.IsPrivate() || m.Text == "" {
				t.Errorf("%s: %+v", d.Kind, m)
			}
			if i := bytes.IndexByte(m.Raw, '{'); i >= 0 {
				t.Errorf("%s has an unfilled reference: %.80q", d.Kind, m.Raw[i:])
			}
		}
	}
	for _, kind := range append(slices.Concat(differences, genuineKinds), "single") {
		if kinds[kind] == 0 {
			t.Errorf("no mail of kind %s in 20 worlds", kind)
		}
	}
}

// TestShare checks the interval of shares: independent cases have Wilson's. If the copies of each
// campaign are judged alike, the interval is the campaigns'.
func TestShare(t *testing.T) {
	spam := func(c *Counts) int { return c.Spam }
	cases := func(c *Counts) int { return c.Cases }
	single, alike := row{}, row{}
	for i := range 40 {
		hit := 0
		if i < 10 {
			hit = 1
		}
		single[campaignID{"p", i}] = &Counts{Cases: 1, Spam: hit}
		alike[campaignID{"p", i}] = &Counts{Cases: 50, Spam: 50 * hit}
	}
	a, b := share(single, spam, cases), share(alike, spam, cases)
	if a != b || a.Percent != 25 || a.Low < 14 || a.Low > 15 || a.High < 40 || a.High > 41 {
		t.Errorf("%+v and %+v, want 25 within 14.2 to 40.2 both times", a, b)
	}
	if s := share(row{}, spam, cases); s.Low != 0 || s.High != 100 {
		t.Errorf("no cases: %+v", s)
	}
}

// TestPyzorRequest compares a request with the worked example of the specification.
func TestPyzorRequest(t *testing.T) {
	at := time.Unix(1795267705, 6081-1024)
	got := string(pyzorRequest("whitelist", "dc2f1aac4a98fe905e0d362276084a814b77f391", "alice", pyzorKey, at))
	want := "Op: whitelist\nOp-Digest: dc2f1aac4a98fe905e0d362276084a814b77f391\nOp-Spec: 20,3,60,3\n" +
		"Thread: 6081\nPV: 2.1\n" +
		"User: alice\nTime: 1795267705\nSig: 7c79abaa684fc6f1302d44ab30f7edd09005eade\n\n"
	if got != want {
		t.Errorf("%q, want %q", got, want)
	}
}

// TestQuick plays a world to the engine of this process: the same deliveries are counted, and the
// same votes come from the same answers.
func TestQuick(t *testing.T) {
	plan := dense().Plan()
	tally, err := Quick(t.Context(), plan, Options{})
	if err != nil {
		t.Fatal(err)
	}
	total, caught := 0, 0
	for _, l := range tally.Lines() {
		if l.Dimension == "kind" && l.Name == "all" {
			total += l.Cases
			if l.IsSpam {
				caught = l.Counts.Spam
			}
		}
	}
	if total != len(plan.Deliveries) || caught == 0 {
		t.Errorf("%d of %d deliveries, %d caught", total, len(plan.Deliveries), caught)
	}
}

// someMail is a collection of some messages with and without results of a mail server.
func someMail() (all []stream.Mail) {
	for i := range 40 {
		raw := fmt.Sprintf("From mailbox line\nAuthentication-Results: %s; dkim=pass header.d=forged.example\n"+
			"Received: from a ([8.8.4.%d]) by b\nFrom: Ann <ann@shop%d.example>\nMessage-ID: <%d@x>\nSubject: %d\n\n%s\n",
			resultsHost, i+1, i, i, i, languages[0].sentences(rand.New(rand.NewPCG(uint64(i%4), 0)), "talk", 10, nil))
		if i%2 == 0 {
			results := fmt.Sprintf("mx.google.com;\n  dkim=pass header.d=shop%d.example;\n "+
				"spf=pass smtp.mailfrom=ann@shop%d.example", i, i)
			raw = strings.Replace(raw, resultsHost+"; dkim=pass header.d=forged.example", results, 1)
		}
		m := stream.Mail{Name: fmt.Sprint(i), Set: "made", Time: time.Unix(int64(i)*1000, 0), Spam: i%4 == 0}
		m.Raw = []byte(raw)
		all = append(all, m)
	}
	return all
}

// TestReceived checks that mail of a collection reaches a site with the results of the
// collection's server, and with none that its sender wrote in the name of the site's own.
func TestReceived(t *testing.T) {
	plan := Collection(someMail(), CollectionOptions{Seed: 1})
	for i := range plan.Deliveries {
		m := plan.Deliveries[i].Mail()
		if bytes.Contains(m.Raw, []byte("forged.example")) || slices.Contains(m.DKIM, "forged.example") {
			t.Errorf("forged results in\n%s", m.Raw)
		}
		if google := bytes.Contains(m.Raw, []byte("mx.google.com")); google != (m.SPF != "" && len(m.DKIM) == 1) {
			t.Errorf("SPF %q, DKIM %q of\n%s", m.SPF, m.DKIM, m.Raw)
		}
	}
}

// TestCollection plays real mail, or made-up mail where the private corpus is absent: each door
// answers, and a text that each of ten readers reports is spam.
func TestCollection(t *testing.T) {
	messages := someMail()
	t.Run("corpus", func(t *testing.T) {
		if testing.Short() {
			t.Skip("unpacks the corpus")
		}
		for _, set := range []string{"phishing-pot-2023-2024", "lists-2019-2020"} {
			messages = append(messages, corpus(t, set, 40)...)
		}
	})
	plan := Collection(messages, CollectionOptions{Seed: 1, Reporting: 1, Users: 12})
	program, dir := processes(t)
	tally, err := Run(t.Context(), program, plan, Options{Topology: OneNode, Dir: dir})
	if err != nil {
		t.Fatal(err)
	}
	cases := 0
	for _, l := range tally.Lines() {
		if l.IsSpam && l.Name == "made" && (l.Cases != 10 || l.Counts.Spam == 0) {
			t.Errorf("10 equal spams, each reported: %+v", l)
		}
		if !l.IsSpam && l.Name == "lists-2019-2020" && l.Counts.Spam > 0 {
			t.Errorf("mail of lists is spam: %+v", l)
		}
		if l.Dimension == "corpus" {
			cases += l.Cases
		}
	}
	if cases != len(messages) {
		t.Errorf("%d answers to %d messages", cases, len(messages))
	}
}

// corpus returns the first n messages of a set of the private corpus.
func corpus(t *testing.T, set string, n int) (all []stream.Mail) {
	t.Helper()
	for m, err := range mailbox.Read(t.Context(), sharedtest.Unpack(t, set), mailbox.Options{}) {
		if err != nil {
			t.Fatal(err)
		}
		if len(all) == n {
			break
		}
		all = append(all, stream.Mail{Name: m.Name(), Set: set, Time: m.Time, Spam: m.Label == mailbox.Spam, Raw: m.Raw})
	}
	return all
}
