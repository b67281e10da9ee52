package stream

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"math"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/bulkhead-mail/bulkhead"
)

// words returns text of its own for each n.
func words(n int) string {
	all := strings.Fields("apple bridge candle desert engine forest garden hammer island jacket kettle ladder mirror " +
		"needle orange pepper quarry ribbon saddle temple")
	var b strings.Builder
	random := rand.New(rand.NewPCG(uint64(n), 0))
	for range 40 {
		fmt.Fprintf(&b, "%s%c ", all[random.IntN(len(all))], 'a'+rune(n%26))
	}
	return b.String()
}

func letter(n int, kind, domain string) Mail {
	m := Mail{
		Name: fmt.Sprint(n), Set: "made", Time: begin.Add(time.Duration(n) * time.Hour), Kind: kind,
		Spam: kind == "" || strings.HasPrefix(kind, "clone-"),
		Raw:  fmt.Appendf(nil, "From: someone@%s\nTo: bob@example.org\nSubject: %d\n\n%s\n", domain, n, words(n)),
	}
	return m
}

func each(mail []Mail) iter.Seq2[Mail, error] {
	return func(yield func(Mail, error) bool) {
		for _, m := range mail {
			if !yield(m, nil) {
				return
			}
		}
	}
}

// made is letters of all kinds.
func made(t *testing.T) []*Letter {
	t.Helper()
	var mail []Mail
	for n := range 60 {
		kind := []string{"", "", "clone-freemail", "genuine", "newsletters", "lists", "personal", "wrong-reply"}[n%8]
		m := letter(n, kind, fmt.Sprintf("d%d.example", n%5))
		if m.Spam {
			m.Campaign = fmt.Sprint(n % 6) // several letters each
		}
		mail = append(mail, m)
	}
	letters, err := Read(t.Context(), each(mail), 0, nil)
	if err != nil {
		t.Fatal(err)
	}
	return letters
}

// TestAgainstMaps compares a stream with plain maps: what was delivered to whom, who
// complained, and what the engine says of the votes in the end.
func TestAgainstMaps(t *testing.T) {
	for _, lone := range []bool{false, true} {
		opts := Options{Sites: 3, Users: 4, Days: 5, Reporting: 0.5, Mistakes: 100, Objecting: 0.7, Exact: true, Lone: lone,
			Spread: 10 * time.Hour}
		if err := opts.Complete(); err != nil {
			t.Fatal(err)
		}
		p := newPlan(made(t), &opts, 7)
		node, err := newNode(t.Context(), p, &opts)
		if err != nil {
			t.Fatal(err)
		}
		s := newPlayer(p, &opts, node)
		t.Cleanup(func() {
			if err := node.close(t.Context()); err != nil {
				t.Error(err)
			}
		})
		type vote struct {
			server, letter, voter string
		}
		spam, ham := map[vote]bool{}, map[vote]bool{}
		var want [NumKinds]Counts
		for i := range p.deliveries {
			d := &p.deliveries[i]
			if err := s.speak(t.Context(), d.at); err != nil {
				t.Fatal(err)
			}
			before := s.tally.kinds[d.letter.Kind]
			if err := s.deliver(t.Context(), i); err != nil {
				t.Fatal(err)
			}
			flagged := s.tally.kinds[d.letter.Kind].Spam > before.Spam
			c := &want[d.letter.Kind]
			c.Copies++
			server := ""
			if lone {
				server = siteName(d.site)
			}
			v := vote{server, d.letter.Name, d.address()}
			rate := map[Kind]float64{Spam: 0.5, Clone: 0.5, Template: 0.1, Newsletter: 0.3, List: 0.1, Personal: 0.05,
				Quote: 0.05}[d.letter.Kind]
			switch bad := d.letter.Kind == Spam || d.letter.Kind == Clone; {
			case bad && flagged:
			case flagged && d.luck < 0.7:
				c.Objections++
				ham[v] = true
			case !flagged && d.luck < rate:
				c.Complaints++
				spam[v] = true
			}
		}
		if err := s.speak(t.Context(), time.Time{}); err != nil {
			t.Fatal(err)
		}
		for k := range NumKinds {
			got := s.tally.kinds[k]
			if got.Copies != want[k].Copies || got.Complaints != want[k].Complaints || got.Objections != want[k].Objections ||
				got.Copies == 0 {
				t.Errorf("lone %v, %v: %+v, want the copies, complaints and objections of %+v", lone, k, got, want[k])
			}
		}
		if len(spam) < 10 || len(ham) < 1 {
			t.Fatalf("lone %v: %d complaints and %d objections, too few to tell anything", lone, len(spam), len(ham))
		}
		voters := func(votes map[vote]bool, server, letter string) (n int) {
			for v := range votes {
				if v.server == server && v.letter == letter {
					n++
				}
			}
			return n
		}
		seen := map[string]bool{}
		for i := range p.deliveries {
			d := &p.deliveries[i]
			server := ""
			if lone {
				server = siteName(d.site)
			}
			if seen[server+d.letter.Name] {
				continue
			}
			seen[server+d.letter.Name] = true
			v, err := node.server(d.site).Check(t.Context(), bulkhead.Query{Signatures: d.letter.sigs, Source: d.letter.source})
			if err != nil {
				t.Fatal(err)
			}
			for _, f := range v.Findings {
				if f.Signature.Scheme() != bulkhead.Exact {
					continue
				}
				if got, want := f.Spam, voters(spam, server, d.letter.Name); int(got) != want {
					t.Errorf("lone %v, letter %s at %q: the engine knows %d complaints, want %d", lone, d.letter.Name, server, got,
						want)
				}
				if got, want := f.Ham, voters(ham, server, d.letter.Name); int(got) != want {
					t.Errorf("lone %v, letter %s at %q: the engine knows %d objections, want %d", lone, d.letter.Name, server, got,
						want)
				}
			}
		}
	}
}

// TestKnownOutcome lets everybody report a campaign of equal copies: until the first report
// every copy passes, from then on all are spam, and no ham is affected.
func TestKnownOutcome(t *testing.T) {
	letters, err := Read(t.Context(),
		each([]Mail{letter(1, "clone-relinked", "bad.example"), letter(2, "personal", "good.example")}), 0, nil)
	if err != nil {
		t.Fatal(err)
	}
	opts := Options{Reporting: 1, Runs: 3, Days: 2, Tail: 0.5}
	r, err := Run(t.Context(), letters, opts)
	if err != nil {
		t.Fatal(err)
	}
	if err := opts.Complete(); err != nil {
		t.Fatal(err)
	}
	for _, run := range r.Runs {
		p := newPlan(letters, &opts, run.Seed)
		reported := time.Time{}
		passed, copies := 0, 0
		for _, d := range p.deliveries {
			if d.letter.Kind != Clone {
				continue
			}
			copies++
			if reported.IsZero() || d.at.Before(reported) {
				passed++
				if at := d.at.Add(d.delay); reported.IsZero() || at.Before(reported) {
					reported = at
				}
			}
		}
		want := Counts{Copies: copies, Spam: copies - passed, Complaints: passed}
		if got := run.Kinds["clones"]; got != want {
			t.Errorf("seed %d: clones %+v, want %+v", run.Seed, got, want)
		}
		if got, want := run.Kinds["personal"], (Counts{Copies: 1}); got != want {
			t.Errorf("seed %d: personal %+v, want %+v", run.Seed, got, want)
		}
		if copies >= Large && run.First != float64(passed) {
			t.Errorf("seed %d: first catch after %v copies, want %d", run.Seed, run.First, passed)
		}
		all := 0
		for _, c := range run.ByCopy {
			all += c.Copies
		}
		if all != copies {
			t.Errorf("seed %d: %d copies by place, want %d", run.Seed, all, copies)
		}
	}
}

// TestSeed checks that equal seeds give equal results, and another seed another stream.
func TestSeed(t *testing.T) {
	encode := func(seed uint64) string {
		r, err := Run(t.Context(), made(t), Options{Runs: 1, Days: 3, Seed: seed})
		if err != nil {
			t.Fatal(err)
		}
		b, err := json.Marshal(r.Runs)
		if err != nil {
			t.Fatal(err)
		}
		return strings.Replace(string(b), fmt.Sprintf(`"seed":%d`, seed), "", 1)
	}
	first := encode(1)
	if again := encode(1); again != first {
		t.Errorf("seed 1 gives\n%s\nand\n%s", first, again)
	}
	if other := encode(2); other == first {
		t.Errorf("seeds 1 and 2 both give %s", first)
	}
}

// TestPlan checks that the numbers of copies follow the distribution of the options, that
// deliveries are in order, and that a higher rate of reports includes the reports of a lower one.
func TestPlan(t *testing.T) {
	var mail []Mail
	for n := range 4000 {
		mail = append(mail, Mail{Name: fmt.Sprint(n), Spam: true, Raw: []byte("A: b\n\nc")})
	}
	letters, err := Read(t.Context(), each(mail), 0, nil)
	if err != nil {
		t.Fatal(err)
	}
	opts := Options{}
	if err := opts.Complete(); err != nil {
		t.Fatal(err)
	}
	p := newPlan(letters, &opts, 1)
	if len(p.sizes) != len(letters) {
		t.Fatalf("%d campaigns, want %d", len(p.sizes), len(letters))
	}
	for _, least := range []int{2, 10, 100} {
		n := 0
		for _, size := range p.sizes {
			if size >= least {
				n++
			}
		}
		want := math.Pow(float64(least), -opts.Tail)
		if got := float64(n) / float64(len(p.sizes)); math.Abs(got-want) > 4*math.Sqrt(want/float64(len(p.sizes))) {
			t.Errorf("%.4f of the campaigns have %d copies or more, want %.4f", got, least, want)
		}
	}
	few := opts
	few.Reporting = 0.02
	reports := 0
	for i := range p.deliveries {
		d := &p.deliveries[i]
		if i > 0 && d.at.Before(p.deliveries[i-1].at) {
			t.Fatalf("delivery %d is before the one before it", i)
		}
		if d.delay < 5*time.Minute || d.delay > 24*time.Hour || d.site >= opts.Sites || d.user >= opts.Users {
			t.Fatalf("delivery %d: %+v", i, d)
		}
		if few.reaction(d, bulkhead.ClassUnknown) == bulkhead.Spam {
			reports++
			if opts.reaction(d, bulkhead.ClassSuspected) != bulkhead.Spam {
				t.Fatal("who reports at 2 % does not at 10 %")
			}
		}
	}
	n := float64(len(p.deliveries))
	if math.Abs(float64(reports)-0.02*n) > 4*math.Sqrt(0.02*n) {
		t.Errorf("%d reports of %v copies, want 2 %%", reports, n)
	}
}

// TestMailings checks that every message is sent, each message of a campaign in its place, and that
// the campaign has the copies of all of them.
func TestMailings(t *testing.T) {
	letters := made(t)
	opts := Options{}
	if err := opts.Complete(); err != nil {
		t.Fatal(err)
	}
	p := newPlan(letters, &opts, 1)
	sent, sizes, first := map[*Letter]int{}, make([]int, len(p.sizes)), map[*Letter]time.Time{}
	for i := range p.deliveries {
		d := &p.deliveries[i]
		sent[d.letter]++
		sizes[d.campaign]++
		if first[d.letter].IsZero() {
			first[d.letter] = d.at
		}
		if d.letter.campaign != "of 0" && d.letter.campaign != "of 1" && d.letter.campaign != "of 2" {
			continue
		}
		for _, l := range letters {
			if l.campaign == d.letter.campaign && l.Kind == d.letter.Kind && l.time.Before(d.letter.time) &&
				(first[l].IsZero() || !first[l].Before(first[d.letter])) {
				t.Fatalf("%s is first sent at %v, %s at %v, in another order than they came", l.Name, first[l], d.letter.Name,
					first[d.letter])
			}
		}
	}
	if len(sent) != len(letters) {
		t.Errorf("%d letters are sent, want all %d", len(sent), len(letters))
	}
	if fmt.Sprint(sizes) != fmt.Sprint(p.sizes) {
		t.Errorf("campaigns of %v copies, want %v", p.sizes, sizes)
	}
}

// TestApart checks that each message is a campaign of its own if it is to be, and that nothing
// else of the stream changes.
func TestApart(t *testing.T) {
	letters := made(t)
	opts := Options{}
	if err := opts.Complete(); err != nil {
		t.Fatal(err)
	}
	together := newPlan(letters, &opts, 1)
	opts.Apart = true
	p := newPlan(letters, &opts, 1)
	if len(p.sizes) != len(letters) || len(together.sizes) >= len(letters) {
		t.Fatalf("%d campaigns apart and %d together of %d messages", len(p.sizes), len(together.sizes), len(letters))
	}
	of := map[int]*Letter{}
	sizes := make([]int, len(p.sizes))
	for i, d := range p.deliveries {
		if before := of[d.campaign]; before != nil && before != d.letter {
			t.Fatalf("campaign %d has copies of %s and %s", d.campaign, before.Name, d.letter.Name)
		}
		of[d.campaign] = d.letter
		sizes[d.campaign]++
		if d.campaign = together.deliveries[i].campaign; d != together.deliveries[i] {
			t.Fatalf("delivery %d is %+v apart and %+v together", i, d, together.deliveries[i])
		}
	}
	if !slices.Equal(sizes, p.sizes) {
		t.Errorf("campaigns of %v copies, want %v", p.sizes, sizes)
	}
}

// A noting judge keeps what another one said.
type noting struct {
	judge
	answers []answer
}

func (n *noting) deliver(ctx context.Context, d *delivery) (answer, error) {
	a, err := n.judge.deliver(ctx, d)
	n.answers = append(n.answers, a)
	return a, err
}

// TestAfter counts by hand what is first sent after some time: all else is also played, and changes
// the answers for these copies, but none of the counts.
func TestAfter(t *testing.T) {
	opts := Options{Sites: 3, Users: 4, Days: 10, Reporting: 0.5, Mistakes: 100, Spread: 10 * time.Hour, Tail: 0.5,
		Apart: true, Rule: TextAlone}
	if err := opts.Complete(); err != nil {
		t.Fatal(err)
	}
	outcome := func(after time.Duration) (*plan, *RunResult, []answer) {
		opts.After = after
		p := newPlan(made(t), &opts, 3)
		n := &noting{judge: newTextAlone(&opts)}
		s := newPlayer(p, &opts, n)
		for i := range p.deliveries {
			if err := errors.Join(s.speak(t.Context(), p.deliveries[i].at), s.deliver(t.Context(), i)); err != nil {
				t.Fatal(err)
			}
		}
		if err := s.speak(t.Context(), time.Time{}); err != nil {
			t.Fatal(err)
		}
		return p, s.tally.result(p), n.answers
	}
	const half = 5 * 24 * time.Hour
	p, all, want := outcome(0)
	_, late, answers := outcome(half)
	if !slices.Equal(answers, want) {
		t.Fatal("other answers for other counts")
	}
	began, first := map[*Letter]time.Time{}, map[int]time.Time{}
	earlier := func(at, by time.Time) bool { return !by.IsZero() && !by.After(at) }
	for _, d := range p.deliveries {
		if !earlier(d.at, began[d.letter]) {
			began[d.letter] = d.at
		}
		if !earlier(d.at, first[d.campaign]) {
			first[d.campaign] = d.at
		}
	}
	counts, campaigns := map[string]Counts{}, map[int]bool{}
	for i, d := range p.deliveries {
		if began[d.letter].Sub(begin) >= half {
			c := counts[d.letter.Kind.String()]
			c.add(answers[i].class)
			counts[d.letter.Kind.String()] = c
		}
		if d.letter.Kind.Spam() && p.sizes[d.campaign] >= Large && first[d.campaign].Sub(begin) >= half {
			campaigns[d.campaign] = true
		}
	}
	for k := range NumKinds {
		got, want := late.Kinds[k.String()], counts[k.String()]
		if got.Copies != want.Copies || got.Spam != want.Spam || got.Suspected != want.Suspected || got.Copies == 0 {
			t.Errorf("%v: %+v, want the copies of %+v", k, got, want)
		}
		if before := all.Kinds[k.String()]; got.Copies >= before.Copies || got.Complaints > before.Complaints {
			t.Errorf("%v: %+v of the second half, and %+v of all", k, got, before)
		}
	}
	if late.Campaigns != len(campaigns) || late.Campaigns == 0 || late.Campaigns >= all.Campaigns {
		t.Errorf("%d campaigns, want %d of %d", late.Campaigns, len(campaigns), all.Campaigns)
	}
}

func TestKinds(t *testing.T) {
	for _, tt := range []struct {
		mail Mail
		want Kind
	}{
		{Mail{Spam: true}, Spam},
		{Mail{Spam: true, Kind: "clone-urgent"}, Clone},
		{Mail{Spam: true, Raw: []byte("List-Id: <a.example>\n\n")}, Spam},
		{Mail{Kind: "genuine"}, Template},
		{Mail{Kind: "wrong-forward-inline"}, Quote},
		{Mail{Kind: "lists"}, List},
		{Mail{Kind: "list"}, List},
		{Mail{Kind: "no such kind"}, Personal},
		{Mail{Origin: "hard_ham/0001", Raw: []byte("List-Id: <a.example>\n\n")}, Newsletter},
		{Mail{Raw: []byte("A: b\r\nList-Id: <a.example>\r\n\r\n")}, List},
		{Mail{Raw: []byte("Precedence: bulk\n\n")}, Newsletter},
		{Mail{Raw: []byte("A: b\n\nPrecedence: bulk\n")}, Personal},
	} {
		header, _, _ := strings.Cut(strings.ReplaceAll(string(tt.mail.Raw), "\r\n", "\n"), "\n\n")
		if got := kindOf(&tt.mail, []byte(header)); got != tt.want {
			t.Errorf("%+v: %v, want %v", tt.mail, got, tt.want)
		}
	}
}

// TestSource checks from whom a message is verified to be.
func TestSource(t *testing.T) {
	const own = "an address of the message's own"
	for _, tt := range []struct {
		header string
		spam   bool
		dkim   []string
		sender string
		client string
	}{
		{"From: a@example.com\n", false, []string{"example.com"}, "a@example.com", own},
		{"From: a@example.com\n", true, nil, "", own},
		{"From: a@example.com\nList-Id: <l.example.org>\n", false, []string{"l.example.org"}, "", own},
		{"Authentication-Results: mx.example;\n dkim=pass header.d=example.net;\n spf=softfail smtp.mailfrom=x.example\n" +
			"From: a@example.net\n", true, []string{"example.net"}, "a@example.net", own},
		{"Authentication-Results: spf=pass (sender IP is 192.0.2.1)\n smtp.mailfrom=example.com; dkim=none\n" +
			"From: a@example.com\n", true, nil, "a@example.com", "192.0.2.1"},
		{"Authentication-Results: mx; dkim=none\nFrom: a@example.com\n", false, nil, "", own},
		{"Received: from x ([10.0.0.1])\n by y\nReceived: from z (z [198.51.100.7])\nFrom: a@example.com\n", true, nil, "",
			"198.51.100.7"},
	} {
		letters, err := Read(t.Context(), each([]Mail{{Spam: tt.spam, Raw: []byte(tt.header + "\nbody")}}), 0, nil)
		if err != nil {
			t.Fatal(err)
		}
		s := letters[0].source
		client := s.Client.String()
		if strings.HasPrefix(client, "2001:db8:") {
			client = own
		}
		if !reflect.DeepEqual(s.DKIM, tt.dkim) || s.Sender != tt.sender || client != tt.client {
			t.Errorf("%q: DKIM %v, sender %q, client %q; want %v, %q, %q", tt.header, s.DKIM, s.Sender, client, tt.dkim,
				tt.sender, tt.client)
		}
	}
}

// TestUnverified: a share of the ham has unverified senders, and of more if the share is larger.
func TestUnverified(t *testing.T) {
	const n = 1000
	var mail []Mail
	for i := range n {
		mail = append(mail, Mail{Raw: fmt.Appendf(nil, "From: a@example.com\nMessage-Id: <%d@example.com>\n\nbody", i)})
	}
	var before []bool
	for _, share := range []float64{0, 0.3, 0.6, 1} {
		letters, err := Read(t.Context(), each(mail), share, nil)
		if err != nil {
			t.Fatal(err)
		}
		unverified, times := make([]bool, n), 0
		for i, l := range letters {
			if unverified[i] = len(l.source.DKIM) == 0; unverified[i] {
				times++
			}
			if before != nil && before[i] && !unverified[i] {
				t.Fatalf("message %d is verified where the share is %v, and was not where it was less", i, share)
			}
		}
		if math.Abs(float64(times)-share*n) > 100 {
			t.Errorf("%d of %d unverified, want a share of %v", times, n, share)
		}
		before = unverified
	}
}

func TestEstimate(t *testing.T) {
	// 1, 2, 3: standard deviation 1, t(2) = 4.303, over the root of 3.
	e := estimate([]float64{1, 2, 3}, 30)
	if e.Mean != 2 || math.Abs(e.Error-4.303/math.Sqrt(3)) > 1e-9 || e.Cases != 30 {
		t.Errorf("%+v", e)
	}
	if e := estimate([]float64{5}, 1); e != (Estimate{Mean: 5, Cases: 1}) {
		t.Errorf("a single value: %+v", e)
	}
	for n, want := range map[int]int{1: 0, 4: 3, 5: 3, 6: 4, 10_000: len(Steps) - 1} {
		if got := step(n); got != want {
			t.Errorf("copy %d is in step %d, want %d", n, got, want)
		}
	}
	if got := median([]int{4, 1, 2, 9}); got != 3 {
		t.Errorf("median %v, want 3", got)
	}
}

func TestRefuses(t *testing.T) {
	for _, o := range []Options{
		{Sites: -1}, {Users: -1}, {Reporting: 1.1}, {Reporting: math.NaN()}, {Objecting: -1}, {Mistakes: 101}, {Days: -1},
		{Tail: 0.1}, {Spread: -1}, {After: -1}, {After: 30 * 24 * time.Hour}, {Runs: -1}, {Rule: "luck"},
	} {
		if r, err := Run(t.Context(), made(t), o); err == nil || r != nil {
			t.Errorf("%+v: %v, %v", o, r, err)
		}
	}
	if _, err := Run(t.Context(), nil, Options{}); err == nil {
		t.Error("a stream of nothing")
	}
	broken := errors.New("cable cut")
	_, err := Read(t.Context(), func(yield func(Mail, error) bool) { yield(Mail{}, broken) }, 0, nil)
	if !errors.Is(err, broken) {
		t.Errorf("error %v, want %v", err, broken)
	}
}

// TestFirstReport draws campaigns of ten copies and more as streams have them, each alone, and logs
// how many of its copies come before its first report: what no rule can catch that waits for one,
// unless the copies share something with what was reported before.
func TestFirstReport(t *testing.T) {
	for _, tt := range []struct {
		reporting     float64
		least, most   int     // the median
		seldom, often float64 // share of campaigns with a report within three copies
	}{{0.1, 8, 10, 0.12, 0.25}, {0.02, 12, 17, 0.02, 0.07}} {
		random := rand.New(rand.NewPCG(1, 2))
		opts := Options{}
		if err := opts.Complete(); err != nil {
			t.Fatal(err)
		}
		var before []int
		soon := 0
		for len(before) < 5000 {
			n := copies(kinds[Spam], opts.Tail, random)
			if n < 10 {
				continue
			}
			came := make([]time.Duration, n)
			reported := time.Duration(math.MaxInt64)
			for i := range came {
				if i > 0 {
					came[i] = time.Duration(random.ExpFloat64() * float64(opts.Spread))
				}
				if after := delay(random); random.Float64() < tt.reporting {
					reported = min(reported, came[i]+after)
				}
			}
			passed := 0
			for _, at := range came {
				if at < reported {
					passed++
				}
			}
			if passed <= 3 {
				soon++
			}
			before = append(before, passed)
		}
		slices.Sort(before)
		median, share := before[len(before)/2], float64(soon)/float64(len(before))
		t.Logf("%.0f %% report: a median of %d copies come before the first report; %.1f %% of campaigns have one within "+
			"three", 100*tt.reporting, median, 100*share)
		if median < tt.least || median > tt.most || share < tt.seldom || share > tt.often {
			t.Errorf("%.0f %% report: median %d, want %d to %d; share %.3f, want %.2f to %.2f", 100*tt.reporting, median,
				tt.least, tt.most, share, tt.seldom, tt.often)
		}
	}
}
